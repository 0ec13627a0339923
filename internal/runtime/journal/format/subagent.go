package format

import "github.com/capstan-dev/capstan/api/v1alpha1"

func subAgentFrom(s *v1alpha1.SubAgentReference) *subAgent {
	if s == nil {
		return nil
	}
	return &subAgent{Name: s.Name, SessionUID: s.SessionUID, Totals: totalsFrom(s.Totals)}
}

func (s *subAgent) reference() *v1alpha1.SubAgentReference {
	if s == nil {
		return nil
	}
	return &v1alpha1.SubAgentReference{Name: s.Name, SessionUID: s.SessionUID, Totals: s.Totals.totals()}
}

func subAgentsFrom(s *v1alpha1.SubAgentsSummary) *subAgents {
	if s == nil {
		return nil
	}
	return &subAgents{Calls: s.Calls, Totals: totalsFrom(&s.SubAgentTotals)}
}

func (s *subAgents) summary() *v1alpha1.SubAgentsSummary {
	if s == nil {
		return nil
	}
	read := &v1alpha1.SubAgentsSummary{Calls: s.Calls}
	if s.Totals != nil {
		read.SubAgentTotals = *s.Totals.totals()
	}
	return read
}

func totalsFrom(t *v1alpha1.SubAgentTotals) *subAgentTotals {
	if t == nil {
		return nil
	}
	return &subAgentTotals{
		Usage: usage(t.Usage), ModelCalls: t.ModelCalls, UnpricedModelCalls: t.UnpricedModelCalls,
		Cost: costsFrom(t.Cost), Payments: costsFrom(t.Payments),
	}
}

func (t *subAgentTotals) totals() *v1alpha1.SubAgentTotals {
	if t == nil {
		return nil
	}
	return &v1alpha1.SubAgentTotals{
		Usage: v1alpha1.Usage(t.Usage), ModelCalls: t.ModelCalls, UnpricedModelCalls: t.UnpricedModelCalls,
		Cost: costsOf(t.Cost), Payments: costsOf(t.Payments),
	}
}
