package main

import (
	"fmt"
	"slices"
	"strings"
)

// figure is one number that is measured of both programs.
type figure struct {
	id    string // in the JSON file
	group string // what --only calls it: figures that come from the same runs have the same
	title string
	unit  string
}

const (
	seconds   = "s"
	megabytes = "MB"
	each      = "1" // a count
	minutely  = "1/min"
)

// The groups.
const (
	initialise  = "init"
	joinEarly   = "join-early"
	join        = "join"
	resetWorker = "reset-worker"
	reset       = "reset"
	joinPlane   = "join-plane"
	resetPlane  = "reset-plane"
	joinPlanes  = "join-planes"
	certs       = "certs"
	version     = "version"
	size        = "size"
	scale       = "scale"
)

// A group's time is called like the group. What else its runs show has these endings.
const (
	peak      = "-memory"
	kubelet   = "-kubelet"
	perMinute = "-rate"
	requests  = "-requests"
)

// figures lists all figures in the order in which they are shown. Memory is told of commands that start no bigger program:
// in init and join the largest would be the kubelet that is asked for its version; a simulated one is small.
func figures() []figure {
	return []figure{
		{initialise, initialise, "init --upload-certs, clean node", seconds},
		{initialise + kubelet, initialise, "  until the kubelet starts", seconds},
		{joinEarly, joinEarly, "join, worker, right after init", seconds},
		{join, join, "join, worker, settled cluster", seconds},
		{resetWorker, resetWorker, "reset, worker", seconds},
		{reset, reset, "reset, only control plane", seconds},
		{joinPlane, joinPlane, "join, second control plane", seconds},
		{resetPlane, resetPlane, "reset, second control plane", seconds},
		{joinPlanes, joinPlanes, "join, two control planes at once", seconds},
		{certs, certs, "init phase certs all, empty directory", seconds},
		{certs + peak, certs, "  peak memory", megabytes},
		{version, version, "version", seconds},
		{version + peak, version, "  peak memory", megabytes},
		{size, size, "size of the program", megabytes},
		{scale, scale, "join, one of many machines at once", seconds},
		{scale + perMinute, scale, "  joins per minute", minutely},
		{scale + requests, scale, "  requests to the API server", each},
		{scale + requests + kubelet, scale, "    of these the kubelet's", each},
		{scale + peak, scale, "  peak memory", megabytes},
	}
}

func groups() []string {
	var names []string
	for _, f := range figures() {
		names = append(names, f.group)
	}
	return slices.Compact(names)
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

func listed(names []string) string { return strings.Join(names, ", ") }

// selection is the groups that --only leaves; nil means all.
type selection []string

// choose reads names of groups, separated by commas.
func choose(only string) (selection, error) {
	if only == "" {
		return nil, nil
	}
	s := selection(strings.Split(only, ","))
	for _, name := range s {
		if !slices.Contains(groups(), name) {
			return nil, fmt.Errorf("--only %s: there is no figure %q, but %s", only, name, listed(groups()))
		}
	}
	return s, nil
}

// wants tells whether any of the groups is to be measured.
func (s selection) wants(groups ...string) bool {
	return s == nil || slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(s, g) })
}
