package main

import "slices"

// summary is what is told of a figure's samples.
type summary struct {
	Median  float64   `json:"median"`
	Min     float64   `json:"min"`
	Max     float64   `json:"max"`
	Samples []float64 `json:"samples"` // in the order in which they were taken
}

// summarize returns nil if there are no samples.
func summarize(samples []float64) *summary {
	if len(samples) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(samples))
	return &summary{Median: median(sorted), Min: sorted[0], Max: sorted[len(sorted)-1], Samples: samples}
}

// median is the sample in the middle, or half-way between the two that are. The samples must be sorted.
func median(sorted []float64) float64 {
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// ratio compares medians. It is nil if one is missing or there is nothing to divide by.
func ratio(ours, upstream *summary) *float64 {
	if ours == nil || upstream == nil || upstream.Median == 0 {
		return nil
	}
	r := ours.Median / upstream.Median
	return &r
}

// compared is a figure of both programs.
type compared struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Unit     string   `json:"unit"`
	Ours     *summary `json:"ours"` // null: no run ended well
	Upstream *summary `json:"upstream"`
	Ratio    *float64 `json:"ratio"` // of the medians, ours to upstream's
	failed   [2]int
}

// compare lists what was to be measured.
func (l *ledger) compare(only selection) []compared {
	var all []compared
	for _, f := range figures() {
		if !only.wants(f.group) {
			continue
		}
		c := compared{
			ID: f.id, Title: f.title, Unit: f.unit,
			Ours: summarize(l.samples[f.id][ours]), Upstream: summarize(l.samples[f.id][upstream]),
			failed: [2]int{l.failed(f.id, ours), l.failed(f.id, upstream)},
		}
		c.Ratio = ratio(c.Ours, c.Upstream)
		all = append(all, c)
	}
	return all
}
