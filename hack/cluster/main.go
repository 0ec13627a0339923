// Command cluster runs a real single-node Kubernetes on one machine, built from Go modules: for tests against a kubelet
// and a Job controller, and, with the control plane alone, for envtest. It needs neither a container engine nor a
// registry.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// command is the whole command line. Results go to the standard output, progress to the standard error output, so that
// $(... kubeconfig) and $(... assets) have only the result.
func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "cluster",
		Short:         "A real single-node Kubernetes, built from Go modules",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	name := root.PersistentFlags().String("name", "default", "the cluster's name; clusters of other names run beside it")
	root.AddCommand(buildCommand(), assetsCommand(), upCommand(name), downCommand(name), statusCommand(name),
		kubeconfigCommand(name), logsCommand(name), loadCommand(name), imagesCommand(name))
	return root
}

func buildCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "build", Short: "Build the programs into the user's cache directory", Args: cobra.NoArgs}
	only := cmd.Flags().String("only", "", "build a part: envtest is etcd, kube-apiserver and kubectl")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		wanted, err := selectPrograms(*only)
		if err != nil {
			return err
		}
		return buildPrograms(cmd.Context(), cmd.ErrOrStderr(), wanted)
	}
	return cmd
}

func assetsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "assets",
		Short: "Print the directory of the programs, for KUBEBUILDER_ASSETS and for PATH",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := assetsDir()
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), dir)
			return nil
		},
	}
}

func upCommand(name *string) *cobra.Command {
	cmd := &cobra.Command{Use: "up", Short: "Start a cluster and wait until its node is Ready", Args: cobra.NoArgs}
	portBase := cmd.Flags().Int("port-base", 0,
		fmt.Sprintf("the API server's port on 127.0.0.1, and the first of %d (default: the first free of %d, %d, ...)",
			portsPerCluster, defaultPortBase, defaultPortBase+portsPerCluster))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *portBase < 0 || *portBase > 65535-portsPerCluster {
			return fmt.Errorf("--port-base %d is not a port with %d above it", *portBase, portsPerCluster)
		}
		return up(cmd.Context(), cmd.ErrOrStderr(), *name, *portBase)
	}
	return cmd
}

func downCommand(name *string) *cobra.Command {
	cmd := &cobra.Command{Use: "down", Short: "Stop a cluster and remove everything of it", Args: cobra.NoArgs}
	purge := cmd.Flags().Bool("purge", false, "remove the binary cache as well")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return down(cmd.Context(), cmd.ErrOrStderr(), *name, *purge)
	}
	return cmd
}

func statusCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Print how a cluster does; fails when it does not run as it should",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return status(cmd.Context(), cmd.OutOrStdout(), *name)
		},
	}
}

func kubeconfigCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of a cluster's kubeconfig",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadCluster(*name)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), c.kubeconfig())
			return nil
		},
	}
}

func logsCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "logs DAEMON",
		Short: "Print the log of one of a cluster's daemons",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := loadCluster(*name)
			if err != nil {
				return err
			}
			var known []string
			for _, d := range c.daemons() {
				known = append(known, d.name)
			}
			if !slices.Contains(known, args[0]) {
				return fmt.Errorf("daemon %q is not known; there are %s", args[0], strings.Join(known, ", "))
			}
			log, err := os.Open(c.logFile(args[0]))
			if err != nil {
				return fmt.Errorf("opening the log of %s: %w", args[0], err)
			}
			defer log.Close()
			_, err = io.Copy(cmd.OutOrStdout(), log)
			return err
		},
	}
}

func loadCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "load TARBALL...",
		Short: "Import image tarballs into a cluster's node",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := loadCluster(*name)
			if err != nil {
				return err
			}
			return c.load(cmd.Context(), cmd.ErrOrStderr(), args)
		},
	}
}

func imagesCommand(name *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "images [NAME...]",
		Short: "Build the project's images as tarballs: all, or those named",
	}
	root := cmd.Flags().String("repo-root", "", "the repository's root (default: the one this module is in)")
	out := cmd.Flags().String("out", "", "the directory of the tarballs (default: images in the user's cache directory)")
	load := cmd.Flags().Bool("load", false, "load them into the cluster as well")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		wanted, err := selectImages(args)
		if err != nil {
			return err
		}
		if *out == "" {
			cache, err := cacheRoot()
			if err != nil {
				return err
			}
			*out = filepath.Join(cache, "images")
		}
		if *root == "" {
			module, err := moduleDir()
			if err != nil {
				return err
			}
			*root = filepath.Join(module, "..", "..")
		}
		tarballs, err := buildImages(cmd.Context(), cmd.ErrOrStderr(), *root, *out, wanted)
		if err != nil || !*load {
			return err
		}
		c, err := loadCluster(*name)
		if err != nil {
			return err
		}
		return c.load(cmd.Context(), cmd.ErrOrStderr(), tarballs)
	}
	return cmd
}
