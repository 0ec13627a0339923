// Package trace describes Turns as spans. It is pure: the spans of a step follow from the entry of the journal that
// closes it, and their ids from the Turn, the step and the call. So every process that sees the entry makes the same
// spans, and a manager that takes over can export again what an earlier one may have lost: a backend keeps one span for
// each id.
//
// Package otlp exports spans. Nothing else here knows OpenTelemetry's SDK.
package trace
