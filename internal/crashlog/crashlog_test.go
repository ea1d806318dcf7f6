package crashlog

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFindInRealLogs reads what Kubernetes 1.37.1, etcd 3.7.3, containerd 2.4.2 and Go's runtime
// wrote. The first line of each file is what must be found, after a "#".
func TestFindInRealLogs(t *testing.T) {
	files, err := filepath.Glob("testdata/*.log")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, log, _ := strings.Cut(string(data), "\n")
		want := strings.TrimPrefix(head, "# ")
		find := func(log string) string { return cmp.Or(Find(log), LastLines(log, 1)[0]) }
		if got := find(log); !strings.Contains(got, want) {
			t.Errorf("%s: found %q, want %q", file, got, want)
		}
		if got := find(Shorten(log, 2<<10)); !strings.Contains(got, want) {
			t.Errorf("%s: after it was shortened %q was found", file, got)
		}
	}
}

func TestCause(t *testing.T) {
	for name, c := range map[string]struct{ log, want string }{
		"klog": {"I1 version\nE1 run.go:72] \"command failed\" err=\"open /nope\"\n",
			`"E1 run.go:72] \"command failed\" err=\"open /nope\""`},
		"klog fatal": {"F0101 12:00:00.1 1 instance.go:225] no storage\ngoroutine 1 [running]:\nmain.go:1\n",
			`"F0101 12:00:00.1 1 instance.go:225] no storage"`},
		"zap": {"{\"level\":\"info\"}\n{\"level\":\"panic\",\"error\":\"no space left\"}\npanic: failed\nmain.go:1\n",
			`"{\"level\":\"panic\",\"error\":\"no space left\"}"`},
		"usage": {"invalid value \"x\" for flag -quota: parse error\nUsage:\n  etcd [flags]\n",
			`"invalid value \"x\" for flag -quota: parse error"`},
		"a handled panic is none": {"2026/01/01 http: panic serving 192.0.2.1:1: x\nI0101 12:00:00 ok\nlast\n",
			`"2026/01/01 http: panic serving 192.0.2.1:1: x", "I0101 12:00:00 ok", "last"`},
		"EINVAL is no argument": {"I0101 12:00:00 write: invalid argument\nstopped\n",
			`"I0101 12:00:00 write: invalid argument", "stopped"`},
		"only a stack trace is left": {"\t/go/x.go:1 +0x1\nmain.main()\n\t/go/y.go:2 +0x2\ncreated by main.f in goroutine 7\nexit status 2\n",
			`"exit status 2"`},
		"no sign": {"a\nb\nc\nd\n", `"b", "c", "d"`},
		"escapes": {"\x1b[2Jcleared\n", `"\x1b[2Jcleared"`},
		"nothing": {"\n", ""},
	} {
		if got := Cause(c.log, 3); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	if got := Cause("panic: "+strings.Repeat("long ", 1000), 3); len(got) > 500 {
		t.Errorf("%d characters are shown", len(got))
	}
}

func TestShortenKeepsCause(t *testing.T) {
	var frames strings.Builder
	for i := range 500 {
		fmt.Fprintf(&frames, "main.f%d(...)\n\t/go/main.go:%d +0x1\n", i, i)
	}
	const limit = 1000
	got := Shorten("I0101 begin\npanic: boom\n\n"+frames.String(), limit)
	if !strings.HasPrefix(got, "panic: boom\n") || len(got) > limit ||
		!strings.HasSuffix(got, "\t/go/main.go:499 +0x1\n") {
		t.Errorf("%d bytes: %.60s ...", len(got), got)
	}
}
