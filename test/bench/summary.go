package main

import "slices"

// summary summarizes a figure's samples.
type summary struct {
	Median      float64      `json:"median"`
	Min         float64      `json:"min"`
	Max         float64      `json:"max"`
	Percentiles *percentiles `json:"percentiles,omitempty"` // null: too few samples
	Samples     []float64    `json:"samples"`               // in the order in which they were taken
}

// percentiles are the 50th and the 95th percentile of a figure's samples.
type percentiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

// percentileSamples is the least number of samples that percentiles are shown of: with fewer, the
// 95th is the maximum.
const percentileSamples = 20

// newSummary returns nil if there are no samples.
func newSummary(samples []float64) *summary {
	if len(samples) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(samples))
	s := &summary{Median: medianOf(sorted), Min: sorted[0], Max: sorted[len(sorted)-1],
		Samples: samples}
	if len(sorted) >= percentileSamples {
		s.Percentiles = &percentiles{P50: percentileOf(sorted, 50), P95: percentileOf(sorted, 95)}
	}
	return s
}

// percentileOf returns a percentile from 1 to 100 by the nearest-rank method: the smallest sample
// such that at least that many percent of all samples are not larger. The samples must be sorted.
func percentileOf(sorted []float64, percent int) float64 {
	rank := (percent*len(sorted) + 99) / 100 // rounded up, from 1
	return sorted[rank-1]
}

// medianOf returns the sample in the middle, or the mean of the two in the middle. The samples
// must be sorted.
func medianOf(sorted []float64) float64 {
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// ratioOfMedians compares medians. It is nil if one is missing or there is nothing to divide by.
func ratioOfMedians(ours, upstream *summary) *float64 {
	if ours == nil || upstream == nil || upstream.Median == 0 {
		return nil
	}
	r := ours.Median / upstream.Median
	return &r
}

// ratioRange returns the lowest and the highest ratio of one round, ours to upstream's. It is nil unless
// both programs have one sample of each of several rounds.
func ratioRange(ours, upstream *summary, rounds int) *[2]float64 {
	if ours == nil || upstream == nil || rounds < 2 || len(ours.Samples) != rounds ||
		len(upstream.Samples) != rounds || upstream.Min == 0 {
		return nil
	}
	var all []float64
	for i, sample := range ours.Samples {
		all = append(all, sample/upstream.Samples[i])
	}
	return &[2]float64{slices.Min(all), slices.Max(all)}
}

// comparison is a figure of both programs.
type comparison struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Unit     string   `json:"unit"`
	Ours     *summary `json:"ours"` // null: all runs failed
	Upstream *summary `json:"upstream"`
	Ratio    *float64 `json:"ratio"` // of the medians, ours to upstream's
	// the lowest and the highest ratio of one round; null: there are none to compare
	RatioRange *[2]float64 `json:"ratioRange"`
	failed     [2]int
}

// compare lists the selected figures of both programs.
func (l *measurements) compare(only selection) []comparison {
	var all []comparison
	for _, f := range allFigures() {
		if !only.includes(f.group) {
			continue
		}
		c := comparison{
			ID: f.id, Title: f.title, Unit: f.unit,
			Ours:     newSummary(l.samples[f.id][ours]),
			Upstream: newSummary(l.samples[f.id][upstream]),
			failed:   [2]int{l.countFailures(f.id, ours), l.countFailures(f.id, upstream)},
		}
		c.Ratio = ratioOfMedians(c.Ours, c.Upstream)
		if len(l.failures) == 0 { // a failure ends the turn: samples of later commands are missing
			c.RatioRange = ratioRange(c.Ours, c.Upstream, l.rounds())
		}
		all = append(all, c)
	}
	return all
}
