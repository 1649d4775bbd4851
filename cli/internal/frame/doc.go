// Package frame is what every command runs in: App is one run of the program, Session is that run
// against the control plane that its user chose. It reads flags and answers, asks for confirmation,
// prints what was answered and explains failures. It knows no noun of the API.
package frame
