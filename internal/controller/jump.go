package controller

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/wake"
)

// enqueueAll returns the function for Options.Jumps: it enqueues every Turn, Session, sub-agent, background task,
// Schedule, Budget, LeasedResource, Model and MCPServer.
func enqueueAll(
	reader client.Reader, turnWakes, sessionWakes, modelWakes, serverWakes, agentWakes, taskWakes, scheduleWakes,
	budgetWakes, leaseWakes *wake.Source,
) func(context.Context) error {
	return func(ctx context.Context) error {
		var turns v1alpha1.TurnList
		if err := reader.List(ctx, &turns); err != nil {
			return fmt.Errorf("listing the Turns to reconcile after a clock jump: %w", err)
		}
		var sessions v1alpha1.SessionList
		if err := reader.List(ctx, &sessions); err != nil {
			return fmt.Errorf("listing the Sessions to reconcile after a clock jump: %w", err)
		}
		var models v1alpha1.ModelList
		if err := reader.List(ctx, &models); err != nil {
			return fmt.Errorf("listing the Models to reconcile after a clock jump: %w", err)
		}
		var servers v1alpha1.MCPServerList
		if err := reader.List(ctx, &servers); err != nil {
			return fmt.Errorf("listing the MCPServers to reconcile after a clock jump: %w", err)
		}
		var schedules v1alpha1.ScheduleList
		if err := reader.List(ctx, &schedules); err != nil {
			return fmt.Errorf("listing the Schedules to reconcile after a clock jump: %w", err)
		}
		for i := range schedules.Items {
			scheduleWakes.Wake(client.ObjectKeyFromObject(&schedules.Items[i]))
		}
		var budgets v1alpha1.BudgetList
		if err := reader.List(ctx, &budgets); err != nil {
			return fmt.Errorf("listing the Budgets to reconcile after a clock jump: %w", err)
		}
		for i := range budgets.Items {
			budgetWakes.Wake(client.ObjectKeyFromObject(&budgets.Items[i]))
		}
		var leases v1alpha1.LeasedResourceList
		if err := reader.List(ctx, &leases); err != nil {
			return fmt.Errorf("listing the LeasedResources to reconcile after a clock jump: %w", err)
		}
		for i := range leases.Items {
			leaseWakes.Wake(client.ObjectKeyFromObject(&leases.Items[i]))
		}
		for i := range servers.Items {
			serverWakes.Wake(client.ObjectKeyFromObject(&servers.Items[i]))
		}
		for i := range models.Items {
			modelWakes.Wake(client.ObjectKeyFromObject(&models.Items[i]))
		}
		for i := range turns.Items {
			turnWakes.Wake(client.ObjectKeyFromObject(&turns.Items[i]))
		}
		for i := range sessions.Items {
			sessionWakes.Wake(client.ObjectKeyFromObject(&sessions.Items[i]))
			taskWakes.Wake(client.ObjectKeyFromObject(&sessions.Items[i]))
			if sessions.Items[i].Spec.Origin.SubAgentOf() != nil {
				agentWakes.Wake(client.ObjectKeyFromObject(&sessions.Items[i]))
			}
		}
		return nil
	}
}
