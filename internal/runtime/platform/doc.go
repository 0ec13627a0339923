// Package platform is the program of the capability platform: its calls manage Harnesses, Agents and Sessions, and send
// messages to Sessions, with the rights of a ServiceAccount (SVC-04). It runs in the Job of a call, as a part of the
// launcher, which is in the pods of all tools and has to stay small: it uses nothing besides the standard library.
//
// The API server decides about every request, by the rights of the ServiceAccount and by the admission policies. What
// this program refuses by itself is what would make an agent run without an end.
package platform
