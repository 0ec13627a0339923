// Package capstantest is for tests of your own agents: it installs Capstan into any envtest environment and runs the
// real controllers there, with the simulated model provider. No container runs: the kit plays Job controller and
// kubelet, and calls a function of the test for the result of each tool call.
//
//	kit, err := capstantest.Start(ctx, config, capstantest.Options{
//		Jobs: func(call capstantest.Call) (stdout, stderr string, exit int) { return "42", "", 0 },
//	})
//	...
//	Eventually(kit.Turn(ctx, "default", "demo-1")).Should(capstantest.HaveSucceeded())
//
// Otherwise the tool calls use the real path: the real Job objects with gates and fingerprints, the launcher's result
// format, the journal.
//
// Only the simulated provider is compiled; package providers has the drivers of the real ones.
//
// A Clock advances the time, so that timeouts and deadlines pass at once, and WithoutPauses moves it to the end of each
// pause between attempts. Kit.Inject makes tools fail as they do in clusters: an image that cannot be pulled, an
// eviction, a lost node. Kit.Apply applies manifests, Kit.Answer plays the client, Kit.ToolResultText reads the text
// for the model about a call, and the matchers HaveSucceeded, HaveFailed, WaitForTools and HaveToolCall check Turns.
//
// Package inprocess runs the same Turns without an API server, in the process of the test.
//
// docs/testing-your-agents.md shows them at work, and examples/testing is a module that uses them.
package capstantest
