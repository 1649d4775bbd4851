package apiclient

// Words are the values of an enum of the contract, in its order: those of a field,
// as in Words("DecommissionNewBatchBody.erase"), or of a parameter of an operation,
// as in Words("list-nodes.order"). A name that the contract does not have is a mistake
// of the program.
func Words(enum string) []string {
	words, ok := enums[enum]
	if !ok {
		panic("the contract has no enum " + enum)
	}
	return words
}
