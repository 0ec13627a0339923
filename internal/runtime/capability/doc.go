// Package capability decides which capabilities a Session has, and in which order: those that its layers name, with the
// capabilities that these depend on. It is pure, and does not know what a capability contributes.
package capability
