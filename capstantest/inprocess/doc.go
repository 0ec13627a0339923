// Package inprocess runs Turns in the process of a test, or of a program that embeds agents, without an API server,
// etcd or Jobs: a Turn takes a millisecond. It uses the same loop as the controllers: the planner, the journal, the
// merge of the configuration layers, the checks of arguments, the texts for models, and the status of a Turn.
//
//	runtime, err := inprocess.New(ctx,
//		inprocess.WithManifests(os.DirFS("manifests")),
//		inprocess.WithSimulation(simulation),
//		inprocess.WithTool("word-count", func(call inprocess.Call) (stdout, stderr string, exit int) { return "6", "", 0 }),
//	)
//	...
//	turn, err := runtime.RunText(ctx, "demo", "How many words has this sentence?")
//
// A function replaces the container of a Job tool; the same function serves capstantest.Options.Jobs. The requests of
// HTTP tools, and those to model providers, are sent. Calls of client tools, calls that need approval and calls of HTTP
// tools whose Secret is missing make RunTurn return: Answer, Refuse, Decide and Apply continue the Turn.
//
// There are no Jobs, pods, images, quotas, network policies, permissions or admission policies here, and no object is
// deleted by its age. To test with them, use capstantest, which runs the real controllers against an API server. The
// defaults, the schema and the CEL rules of the CustomResourceDefinitions apply here as well, except for rules about
// changes. All objects are in one namespace.
//
// Files of a session do not exist in this API yet, so that there is nothing to seed (RT-02).
package inprocess
