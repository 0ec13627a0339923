// Package provider has the shared code of the drivers of real model providers: the classification of errors without
// confidential details (ERR-02), and the conversion of a conversation that another provider may have produced.
package provider
