package cri

import (
	"io"

	"google.golang.org/grpc/grpclog"
)

// LogTo redirects the log of gRPC from standard error: its warnings to one writer, its errors to both. Call
// it before any connection is opened.
func LogTo(warnings, errs io.Writer) {
	if warnings == errs {
		errs = io.Discard
	}
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, warnings, errs))
}
