package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"kubeadm/test/nodes"
)

// unitStarted is systemd's message ID for a unit that has started, see sd-messages.h.
const unitStarted = "39f53479d3a045ac8e11786248231fbf"

const kubeletConfig = "/var/lib/kubelet/config.yaml"

// findKubeletStart returns when a node's kubelet was first started with its configuration. Without
// one systemd restarts it every few seconds since the boot.
func findKubeletStart(ctx context.Context, n *nodes.Node) (time.Time, error) {
	stat, err := n.Run(ctx, "stat", "--format=%.6Y", kubeletConfig)
	if err != nil {
		return time.Time{}, err
	}
	configured, err := strconv.ParseFloat(strings.TrimSpace(stat.Stdout), 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the time of %s: %w", kubeletConfig, err)
	}
	journal, err := n.Run(ctx, "journalctl", "--output=json", "--output-fields=UNIT",
		"UNIT=kubelet.service", "MESSAGE_ID="+unitStarted)
	if err != nil {
		return time.Time{}, err
	}
	return firstStartAfter(journal.Stdout, time.UnixMicro(int64(math.Round(configured*1e6))))
}

// firstStartAfter finds the first entry of a journal, in systemd's JSON format, that is not older
// than the time given.
func firstStartAfter(journal string, after time.Time) (time.Time, error) {
	for d := json.NewDecoder(strings.NewReader(journal)); ; {
		var entry struct {
			Microseconds int64 `json:"__REALTIME_TIMESTAMP,string"`
		}
		err := d.Decode(&entry)
		if errors.Is(err, io.EOF) {
			return time.Time{}, fmt.Errorf(
				"the kubelet was not started after its configuration was written at %s",
				after.Format(time.TimeOnly))
		}
		if err != nil {
			return time.Time{}, fmt.Errorf("reading the journal: %w", err)
		}
		if at := time.UnixMicro(entry.Microseconds); !at.Before(after) {
			return at, nil
		}
	}
}
