// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"time"
)

// Backend is the device behind the protocol. All methods are called from several
// goroutines. An error that carries a Code (an *Error, or one that wraps a Code) goes
// out under that code; any other is internal. A panic is recovered and goes out as
// internal with an incident id.
type Backend interface {
	Generator
	JobRunner
	Describer
}

// Generator answers requests.
type Generator interface {
	// Resolve names the model that a request for name ("": the default) would run
	// on. It is called at admission, so it must be quick: UnknownModel,
	// ModelNotReady or Thermal are its errors.
	Resolve(name string) (ModelRef, error)

	// Generate carries out an OpGenerate, OpChat or OpEmbed request. emit takes the answer
	// piece by piece, of OpEmbed the vectors in order; all text goes through it, stop strings already cut off. It
	// costs microseconds, never blocks on the network, and returns an error once the
	// request is over; Generate then returns soon. ctx ends at the deadline, on
	// cancel and at shutdown. Config.Concurrency calls run at a time, and more of
	// requests for which the Generator is to put others in work aside: more urgent
	// ones (r.Priority is lower; it falls below 0 with waiting), and those of clients
	// with two fewer in work. At most Limits.Queue run.
	Generate(ctx context.Context, r *Request, emit func(Event) error) (*Result, error)

	// Tokenize returns the token ids of r.Prompt.
	Tokenize(ctx context.Context, r *Request) ([]int32, error)
}

// Event is a step of a generation: a piece of the answer (Text or Thinking, calls of
// tools behind it, logprobs of its tokens, with Tokens), a Vector or, where Phase is set,
// progress.
type Event struct {
	Vector *Vector

	Text      string
	Thinking  string
	ToolCalls []ToolCall     // whole ones
	Logprobs  []TokenLogprob // where the request asks for them
	Tokens    int            // tokens this piece stands for; 0 while text is held back is fine

	Phase       string // "prefill"
	Done, Total int    // tokens
}

// Result ends a generation.
type Result struct {
	Finish string // FinishStop, FinishCalls, FinishLength; FinishCancel and FinishDeadline where ctx ended
	// BadToolCall: something that began like a call of a tool stands in the text.
	BadToolCall bool
	Usage       Usage
	TTFT        time.Duration // from the call of Generate; 0: measured here
	PrefillTPS  float64
	DecodeTPS   float64
	Model       ModelRef  // what really answered
	Sampling    *Sampling // as it counted; nil: not said
}

// JobRunner carries out commands.
type JobRunner interface {
	// JobTypes lists what RunJob takes ("convert", "verify").
	JobTypes() []string

	// RunJob carries out one job. report is quick and may be called often. The
	// result is marshalled into the job record, beside an error too. ctx ends on
	// job_cancel and at shutdown.
	RunJob(ctx context.Context, j Job, report func(JobProgress)) (result any, err error)
}

// PatientRunner is a JobRunner with jobs that wait more than they work.
type PatientRunner interface {
	JobRunner
	// Beside says that jobs of a type run beside all others: those that do not share
	// one place.
	Beside(typ string) bool
	// Resumes says that a job of a type that a restart cut off is run again, as another
	// attempt, and ends as if it had not been.
	Resumes(typ string) bool
}

// Job is a command as it is handed to the backend.
type Job struct {
	ID     string
	Client string
	Type   string
	Params []byte // the payload: a JSON object
}

// JobProgress is how far a job is.
type JobProgress struct {
	Phase       string
	Done, Total int64 // bytes; Total 0: not known
}

// Describer says what the device is.
type Describer interface {
	Info() Info      // device, ops, job types and limits are filled in here
	Models() []Model // every model that is to have a document
	Stats() Stats    // queue, active, reconnects and dropped are filled in here
}
