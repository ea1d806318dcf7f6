package cri

import (
	"io"

	"google.golang.org/grpc/grpclog"
)

// LogTo redirects the log of gRPC from standard error to w. Call it before any connection is
// opened.
func LogTo(w io.Writer) { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, w, w)) }
