package world

import (
	"context"
	"fmt"
)

// listener is the key under which a context carries who listens.
type listener struct{}

// Listen is a context in which a change tells, while it is carried out, how it gets on. hear is called
// at any time before Do returns, and by several at once.
func Listen(ctx context.Context, hear func(text string)) context.Context {
	return context.WithValue(ctx, listener{}, hear)
}

// Tell tells how a change in hand gets on, to whoever listens.
func Tell(ctx context.Context, format string, args ...any) {
	if hear, ok := ctx.Value(listener{}).(func(string)); ok {
		hear(fmt.Sprintf(format, args...))
	}
}
