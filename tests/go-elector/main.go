// Command go-elector is a replica on client-go's own leader election. While it leads, it writes to a provider every
// WRITE_PERIOD_MS, and does nothing else. The account's log then shows whether two replicas ever wrote at the same
// time.
//
// It shares no code with the operator. That makes it a check. It prints one line when it begins to lead and one when it
// has ended, releases the lease on SIGTERM, and exits with 1 if it lost the lease.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The times that the Go operator uses.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

func env(name string) string {
	value := os.Getenv(name)
	if value == "" {
		fail(fmt.Errorf("%s is not set", name))
	}
	return value
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}

// write sends one change to the provider. The answer does not matter, only that the change arrives.
func write(ctx context.Context, client *http.Client) {
	url := env("DIGITALOCEAN_API_URL") + "v2/reserved_ips/" + env("ADDRESS") + "/actions"
	body := strings.NewReader(`{"type":"assign","droplet_id":` + env("DROPLET") + `}`)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		fail(err)
	}
	request.Header.Set("Authorization", "Bearer "+env("DIGITALOCEAN_ACCESS_TOKEN"))
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return
	}
	_ = answer.Body.Close()
}

// writing is held during a write, and for good once the lease is about to be released.
var writing sync.Mutex

func lead(ctx context.Context, period time.Duration) {
	fmt.Println("leading")
	client := &http.Client{}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for ctx.Err() == nil {
		writing.Lock()
		write(ctx, client)
		writing.Unlock()
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

func main() {
	millis, err := strconv.Atoi(env("WRITE_PERIOD_MS"))
	if err != nil {
		fail(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", env("KUBECONFIG"))
	if err != nil {
		fail(err)
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: env("NAMESPACE"), Name: env("LEASE")},
		Client:     kubernetes.NewForConfigOrDie(config).CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: env("IDENTITY")},
	}
	asked, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	election, end := context.WithCancel(context.Background())
	context.AfterFunc(asked, func() {
		writing.Lock()
		end()
	})
	leaderelection.RunOrDie(election, leaderelection.LeaderElectionConfig{
		Lock:            lock,
		ReleaseOnCancel: true,
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { lead(ctx, time.Duration(millis)*time.Millisecond) },
			OnStoppedLeading: func() { fmt.Println("ended") },
		},
	})
	if asked.Err() == nil {
		os.Exit(1)
	}
}
