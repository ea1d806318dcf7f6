package world

import (
	"errors"
	"net/http"
	"strconv"
	"time"
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

func isAskedPause(err error) bool {
	var asked *retryAfterError
	return errors.As(err, &asked)
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
