// Package provider is what the drivers of real model providers share: what an error of a provider is called, so that it
// is classified rightly and gives nothing away (ERR-02), and how a conversation that another provider may have made is
// told to this one.
package provider
