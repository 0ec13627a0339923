package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// MaxChain is the most Harnesses that a chain may have, the leaf included.
const MaxChain = 16

// ChainProblem is the kind of a ChainError.
type ChainProblem string

const (
	// LeafNotFound: the requested Harness does not exist.
	LeafNotFound ChainProblem = "LeafNotFound"
	// ParentNotFound: a Harness of the chain names a parent that does not exist.
	ParentNotFound ChainProblem = "ParentNotFound"
	// ChainCycle: a Harness of the chain is its own ancestor.
	ChainCycle ChainProblem = "ChainCycle"
	// ChainTooLong: the chain has more than MaxChain Harnesses.
	ChainTooLong ChainProblem = "ChainTooLong"
)

// ChainError is why a chain of Harnesses does not resolve.
type ChainError struct {
	// Problem is the kind of the error.
	Problem ChainProblem
	// Leaf is the requested Harness.
	Leaf string
	// Missing is the Harness that does not exist, with LeafNotFound and ParentNotFound.
	Missing string
	// Path is the names that were walked, from the leaf up. With ChainCycle the last one is the Harness that comes twice.
	Path []string
}

// Error returns the problem and its remedy.
func (e *ChainError) Error() string {
	switch e.Problem {
	case LeafNotFound:
		return fmt.Sprintf("Harness %q does not exist. Create it.", e.Missing)
	case ParentNotFound:
		child := e.Path[len(e.Path)-1]
		return fmt.Sprintf(
			"Harness %q, the parent of Harness %q, does not exist. Create it, or change spec.parentRef of Harness %q.",
			e.Missing,
			child,
			child,
		)
	case ChainCycle:
		return fmt.Sprintf("Harness %q is its own ancestor (%s). Change spec.parentRef of one of them.",
			e.Path[len(e.Path)-1], strings.Join(e.Path, " -> "))
	default:
		return fmt.Sprintf("Harness %q has more than %d ancestors. Shorten the chain.", e.Leaf, MaxChain-1)
	}
}

// Reason returns the reason of the Ready condition for the error.
func (e *ChainError) Reason() string {
	switch e.Problem {
	case LeafNotFound, ParentNotFound:
		return v1alpha1.ReasonHarnessNotFound
	default:
		return v1alpha1.ReasonChainTooLong
	}
}

// Chain walks from a Harness to its root and returns the Harnesses from the root to the leaf (CFG-01). get returns a
// Harness by name, or nil if it does not exist. With an error, it returns the Harnesses that were found, the leaf last;
// none if the leaf is missing.
func Chain(leaf string, get func(name string) *v1alpha1.Harness) ([]*v1alpha1.Harness, *ChainError) {
	var chain []*v1alpha1.Harness
	var path []string
	fail := func(problem ChainProblem, missing string) ([]*v1alpha1.Harness, *ChainError) {
		slices.Reverse(chain)
		return chain, &ChainError{Problem: problem, Leaf: leaf, Missing: missing, Path: path}
	}
	for name := leaf; ; {
		if slices.Contains(path, name) {
			path = append(path, name)
			return fail(ChainCycle, "")
		}
		if len(chain) == MaxChain {
			return fail(ChainTooLong, "")
		}
		harness := get(name)
		if harness == nil && len(chain) == 0 {
			return fail(LeafNotFound, name)
		}
		if harness == nil {
			return fail(ParentNotFound, name)
		}
		chain, path = append(chain, harness), append(path, name)
		if harness.Spec.ParentRef == nil {
			slices.Reverse(chain)
			return chain, nil
		}
		name = harness.Spec.ParentRef.Name
	}
}
