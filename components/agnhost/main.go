// Command agnhost is the program in the test image: a server and a client for tests that run in a
// Pod without a shell.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const usage = `usage: agnhost COMMAND
  serve-hostname [-port 9376]     answer every HTTP request with the host's name; /clientip with the caller's address
  resolve [-timeout 5s] NAME      print the addresses of a name, one per line
  get [-timeout 5s] URL           print the response of a URL; fail unless its status is 200
  pause                           sleep until SIGINT or SIGTERM
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	commands := map[string]func(context.Context, []string) error{
		"serve-hostname": serveHostname,
		"resolve":        resolveName,
		"get":            getURL,
		"pause":          sleepUntilDone,
	}
	run, ok := commands[os.Args[1]]
	if !ok {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err := run(ctx, os.Args[2:]); err != nil {
		log.Fatalf("%s: %v", os.Args[1], err)
	}
}

func sleepUntilDone(ctx context.Context, _ []string) error {
	<-ctx.Done()
	return nil
}

func serveHostname(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("serve-hostname", flag.ExitOnError)
	port := flags.Int("port", 9376, "TCP `port` to listen on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	server := &http.Server{Addr: fmt.Sprintf(":%d", *port), Handler: newHostnameHandler(host), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	log.Printf("serving %s on port %d", host, *port)
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func newHostnameHandler(host string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		log.Printf("%s asked for %s", r.RemoteAddr, r.URL.Path)
		fmt.Fprintln(w, host)
	})
	mux.HandleFunc("/clientip", func(w http.ResponseWriter, r *http.Request) {
		caller, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, caller)
	})
	return mux
}

func resolveName(ctx context.Context, args []string) error {
	ctx, cancel, name, err := parseRequest(ctx, "resolve", args)
	if err != nil {
		return err
	}
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(ctx, name)
	if err != nil {
		return err
	}
	for _, a := range addresses {
		fmt.Println(a)
	}
	return nil
}

func getURL(ctx context.Context, args []string) error {
	ctx, cancel, address, err := parseRequest(ctx, "get", args)
	if err != nil {
		return err
	}
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(os.Stdout, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", address, resp.Status)
	}
	return nil
}

// parseRequest parses the flags and the single argument of a command, and applies its timeout.
func parseRequest(ctx context.Context, command string, args []string) (context.Context, context.CancelFunc, string, error) {
	flags := flag.NewFlagSet(command, flag.ExitOnError)
	timeout := flags.Duration("timeout", 5*time.Second, "how long to wait for the response")
	if err := flags.Parse(args); err != nil {
		return nil, nil, "", err
	}
	if flags.NArg() != 1 {
		return nil, nil, "", fmt.Errorf("want one argument, have %d", flags.NArg())
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	return ctx, cancel, flags.Arg(0), nil
}
