// SPDX-License-Identifier: Apache-2.0

// Command windhover is the language model appliance and its tools: one verb a
// file. It holds no logic of its own; see package appliance.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals // asks
		cancel()
		again := <-signals // has its usual effect at once
		signal.Reset(again)
		if err := syscall.Kill(os.Getpid(), again.(syscall.Signal)); err != nil {
			os.Exit(exitFailed)
		}
	}()
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	cancel()
	os.Exit(code)
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	return reportError(cmd, err)
}
