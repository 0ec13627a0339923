// Package runner runs the programs of tenants, such as the scripts of hooks and SQL, in processes of their own: this
// program in another mode, without files, network, other processes, environment or credentials, with little memory and
// processor time. Each process is started before it is needed, runs one program for one call and ends.
//
// A Pool has the processes, and shares them between namespaces. Main is the other side: a process confines itself,
// reports that it is ready, and serves the program that it is told.
package runner
