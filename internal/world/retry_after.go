package world

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// maxRetryAfter is the longest pause that a server can ask for: an API server asks for at most 32 seconds.
const maxRetryAfter = 32 * time.Second

// RetryAfter returns the error of a check whose server asks to wait that long before the next one, as an API server
// does that has too many requests (RFC 9110, Retry-After). At most half a minute is waited.
func RetryAfter(err error, pause time.Duration) error {
	return &retryAfterError{err, min(pause, maxRetryAfter)}
}

type retryAfterError struct {
	error
	pause time.Duration
}

func (e *retryAfterError) Unwrap() error { return e.error }

// PauseAskedBy is how long the server of a check with this error asks to wait; zero if it does not.
func PauseAskedBy(err error) time.Duration {
	var asked *retryAfterError
	if !errors.As(err, &asked) {
		return 0
	}
	return asked.pause
}

// IsPauseOfBusyServer reports whether the server asks to wait because it has too many requests. Others ask too, such
// as a load balancer without a working API server.
func IsPauseOfBusyServer(err error) bool {
	return PauseAskedBy(err) > 0 && apierrors.IsTooManyRequests(err)
}

// AskedPause is how long a server asks to wait before another request, by a header Retry-After in seconds (RFC 9110)
// of an answer that says it could not be served now; zero if it does not.
func AskedPause(answer *http.Response) time.Duration {
	if answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode < http.StatusInternalServerError {
		return 0
	}
	seconds, err := strconv.ParseUint(answer.Header.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
