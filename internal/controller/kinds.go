package controller

import (
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/internal/controller/budget"
	"github.com/capstan-dev/capstan/internal/controller/configsource"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/controller/job"
	"github.com/capstan-dev/capstan/internal/controller/lease"
	"github.com/capstan-dev/capstan/internal/controller/notice"
	"github.com/capstan-dev/capstan/internal/controller/schedule"
	"github.com/capstan-dev/capstan/internal/controller/subagent"
	"github.com/capstan-dev/capstan/internal/controller/toolresult"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/step"
)

// setUpSubAgents sets up the reconciler of the Sessions of sub-agents.
func (o Options) setUpSubAgents(mgr ctrl.Manager, wakes *wake.Source) error {
	return (&subagent.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Retention: o.JobRetention, Wakes: wakes,
	}).SetupWithManager(mgr)
}

// schedules returns the reconciler of Schedules, which also keeps those that models create.
func (o Options) schedules(mgr ctrl.Manager) *schedule.Reconciler {
	return &schedule.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Wakes: &wake.Source{},
	}
}

// leases returns the reconciler of LeasedResources, which also keeps the leases of tools.
func (o Options) leases(
	mgr ctrl.Manager, texts *configsource.Texts, steps *step.Runner, pools executor.Pools,
) *lease.Reconciler {
	r := &lease.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Texts: texts, Records: steps.Records, Caller: steps,
		Limits: steps.ToolLimits, Policies: o.Policies, Clock: o.Clock, Wakes: &wake.Source{},
		Notices: notice.NewRecorder(mgr.GetEventRecorder("capstan-manager"), o.Clock),
	}
	r.Activities, steps.Leases = executor.NewExecutor(pools, r.Wakes.Wake), r
	return r
}

func (o Options) setUpJobs(mgr ctrl.Manager) error {
	return (&job.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Retention: o.JobRetention,
	}).SetupWithManager(mgr)
}

func (o Options) setUpBudgets(mgr ctrl.Manager, steps *step.Runner, wakes *wake.Source) error {
	return (&budget.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Keeper: steps.Budgets, Clock: o.Clock, Wakes: wakes,
		Notices: notice.NewRecorder(mgr.GetEventRecorder("capstan-manager"), o.Clock),
	}).SetupWithManager(mgr)
}

func (o Options) setUpToolResults(mgr ctrl.Manager) error {
	return (&toolresult.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock,
	}).SetupWithManager(mgr)
}
