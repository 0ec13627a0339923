// Package definition has the one form of everything that a model may call (TOOL-06), wherever it comes from. Planning,
// scheduling and the act step work on definitions; only an executor knows what its own calls need besides. A call is
// pinned to the digest of its definition. A cache keeps a large definition without its texts.
package definition
