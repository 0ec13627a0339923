// Package capstantest is for those who test their own agents: it installs Capstan into any envtest environment and runs
// the real controllers there, with the simulated model provider. No container runs: the kit plays Job controller and
// kubelet, and asks a function of the test what each tool call gives.
//
//	kit, err := capstantest.Start(ctx, config, capstantest.Options{
//		Jobs: func(call capstantest.Call) (stdout, stderr string, exit int) { return "42", "", 0 },
//	})
//	...
//	Eventually(kit.Turn(ctx, "default", "demo-1")).Should(capstantest.HaveSucceeded())
//
// The tool calls go through the real path otherwise: the real Job objects with gates and fingerprints, the launcher's
// result format, the log.
//
// A Clock puts the time forward, so that timeouts and deadlines are over at once. Kit.Inject makes tools fail as they
// do in clusters: an image that cannot be pulled, an eviction, a node that is lost. Kit.Apply applies manifests,
// Kit.Answer plays the client, Kit.Told reads what the model was told of a call, and the matchers HaveSucceeded,
// HaveFailed, WaitForTools and HaveToolCall look at Turns.
//
// Package inprocess runs the same Turns without an API server, in the process of the test.
//
// docs/testing-your-agents.md shows them at work, and examples/testing is a module that uses them.
package capstantest
