package cli

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/view"
)

// catchSignals makes those signals that ask for the end of this process come over a channel from now on, up to its end:
// one that comes last of all must not change the exit code. Those that are ignored already stay so (that is what nohup
// is for). SIGPIPE, with which the end of a reader of our output would end us, is passed over. None is ignored as the
// kernel knows it: plays would inherit that.
func catchSignals() <-chan os.Signal {
	caught, passed := make(chan os.Signal, 8), make(chan os.Signal, 1)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			signal.Notify(passed, sig)
		} else {
			signal.Notify(caught, sig)
		}
	}
	signal.Notify(passed, syscall.SIGPIPE)
	return caught
}

// errKilled says that the user did not want to wait for the end.
var errKilled = errors.New("killed by the user")

// obey makes the first signal cancel the drive and the second kill it, until stop is called.
func (r *running) obey(intents chan v1alpha1.Intent, kill func(), screen view.Screen) (stop func()) {
	done := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-r.signals:
			}
			if n > 0 {
				r.killed.Store(true)
				kill()
				return
			}
			screen.Note("cancelling: what runs is stopped, finally runs; press Ctrl-C again to kill everything")
			r.cancelled.Store(true)
			select {
			case <-intents: // a wish of the manifest's that was not taken up yet
			default:
			}
			intents <- v1alpha1.IntentCancel
		}
	}()
	return func() {
		close(done)
		<-finished
	}
}
