package cri

import (
	"io"

	"google.golang.org/grpc/grpclog"
)

// LogTo sends what gRPC logs to w, instead of its errors to standard error. It must be called before any connection is opened.
func LogTo(w io.Writer) { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, w, w)) }
