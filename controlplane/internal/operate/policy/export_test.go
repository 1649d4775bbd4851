package policy

// DocumentPosition is where a list of documents goes on.
type DocumentPosition = documentPosition
