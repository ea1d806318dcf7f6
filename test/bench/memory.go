package main

import (
	"context"
	"errors"
	"os"
	"time"

	"kubeadm/test/nodes"
)

// memoryInterval is how often the memory of a program is read. The kernel keeps the maximum, so
// that only what the program takes in its last moments can be missed.
const memoryInterval = 20 * time.Millisecond

// memoryIntervalAmong is how often the memory of each of many programs is read, which takes CPU time from them: a
// thousand reads a second.
func memoryIntervalAmong(programs int) time.Duration {
	return max(memoryInterval, time.Duration(programs)*time.Millisecond)
}

// runMeasured runs a command. The result's memory is that of the program alone: the largest process
// of init and join is another one, the kubelet that prints its version, and what wait4(2) reports includes
// the program that started it.
func runMeasured(ctx context.Context, cmd *nodes.Command, interval time.Duration) (nodes.Result, error) {
	p, err := cmd.Start(ctx)
	if err != nil {
		return nodes.Result{Code: -1}, err
	}
	ctx, exited := context.WithCancel(ctx)
	peak := make(chan memoryPeak, 1)
	go func() { peak <- watchMemory(ctx, interval, p.PeakMemory) }()
	r, err := p.Wait()
	exited()
	memory := <-peak
	r.Memory = memory.bytes
	return r, errors.Join(err, memory.err)
}

// memoryPeak is the largest resident set of a program, in bytes.
type memoryPeak struct {
	bytes int64
	err   error
}

// watchMemory calls read, which returns the peak so far, until the program has exited.
func watchMemory(ctx context.Context, interval time.Duration, read func() (int64, error)) (last memoryPeak) {
	for ctx.Err() == nil {
		now, err := read()
		if errors.Is(err, os.ErrProcessDone) {
			break
		}
		if err != nil {
			return memoryPeak{err: err}
		}
		last.bytes = now
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
	if last.bytes == 0 {
		last.err = errors.New("the program exited before its memory could be read")
	}
	return last
}
