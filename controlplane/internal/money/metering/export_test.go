package metering

// Batch is how many meters are looked for at once.
const Batch = batch
