package agentwire

// Protocol numbers what agents and control planes say to each other. It grows when one
// of them says what the other one of before cannot understand, and not with additions.
const Protocol = 1
