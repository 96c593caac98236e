// SPDX-License-Identifier: Apache-2.0
//
// How fast plain C reads memory: the measure that `windhover bench` and its
// kernels are held against. It shares no code with them.
//
//	gcc -O2 -pthread -o read-bandwidth scripts/read-bandwidth.c
//	./read-bandwidth [MIB [THREADS [PASSES]]]     1024 MiB, every CPU, 5 passes of every loop
//	./read-bandwidth -i MIB THREADS               as the test of bench runs it: for every line
//	                                              read, GB/s of one pass of the fastest loop
//
// Memory is anonymous, written once, and asked to be in huge pages. Each thread
// is bound to a CPU and reads its own part from the first byte to the last,
// some loops with software prefetch; what is read is added up, so that
// no load can be left out. A pass goes by pieces of 16 MiB a thread, which all
// begin together and which last until the slowest is through; its speed is what
// one of ten pieces exceeds, so that neighbours of a busy machine do not count.
// GB are 10^9 bytes.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define STEP 512 // bytes an iteration
#define PIECE ((size_t)16 << 20)

typedef uint64_t (*loop)(const unsigned char *p, size_t n);

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2_LOOP(name, fetch)                                                  \
	__attribute__((target("avx2"))) static uint64_t name(const unsigned char *p, size_t n) \
	{                                                                       \
		__m256i s[4] = {0};                                             \
		for (size_t i = 0; i < n; i += STEP, p += STEP) {               \
			for (int k = 0; k < STEP; k += 64)                      \
				fetch;                                          \
			for (int k = 0; k < STEP / 32; k++)                     \
				s[k % 4] = _mm256_add_epi64(s[k % 4], _mm256_load_si256((const __m256i *)p + k)); \
		}                                                               \
		uint64_t v[4];                                                  \
		_mm256_storeu_si256((__m256i *)v, _mm256_add_epi64(_mm256_add_epi64(s[0], s[1]), _mm256_add_epi64(s[2], s[3]))); \
		return v[0] + v[1] + v[2] + v[3];                               \
	}

#define AVX512_LOOP(name, fetch)                                                \
	__attribute__((target("avx512f"))) static uint64_t name(const unsigned char *p, size_t n) \
	{                                                                       \
		__m512i s[4] = {0};                                             \
		for (size_t i = 0; i < n; i += STEP, p += STEP) {               \
			for (int k = 0; k < STEP; k += 64)                      \
				fetch;                                          \
			for (int k = 0; k < STEP / 64; k++)                     \
				s[k % 4] = _mm512_add_epi64(s[k % 4], _mm512_load_si512((const void *)(p + 64 * k))); \
		}                                                               \
		return _mm512_reduce_add_epi64(_mm512_add_epi64(_mm512_add_epi64(s[0], s[1]), _mm512_add_epi64(s[2], s[3]))); \
	}

#define NEAR _mm_prefetch((const char *)p + 2048 + k, _MM_HINT_T0)
#define FAR _mm_prefetch((const char *)p + 4352 + k, _MM_HINT_T0)

AVX2_LOOP(avx2, (void)0)
AVX2_LOOP(avx2_near, NEAR)
AVX2_LOOP(avx2_far, FAR)
AVX512_LOOP(avx512, (void)0)
AVX512_LOOP(avx512_near, NEAR)
AVX512_LOOP(avx512_far, FAR)

static int has_avx2(void) { return __builtin_cpu_supports("avx2"); }
static int has_avx512(void) { return __builtin_cpu_supports("avx512f"); }
#endif

// Vectors of 16 bytes, which every compiler has for every machine.
typedef uint64_t pair __attribute__((vector_size(16)));

#define PAIR_LOOP(name, fetch)                                                  \
	static uint64_t name(const unsigned char *p, size_t n)                  \
	{                                                                       \
		pair s[4] = {0};                                                \
		for (size_t i = 0; i < n; i += STEP, p += STEP) {               \
			for (int k = 0; k < STEP; k += 64)                      \
				fetch;                                          \
			for (int k = 0; k < STEP / 16; k++)                     \
				s[k % 4] += ((const pair *)p)[k];               \
		}                                                               \
		pair v = (s[0] + s[1]) + (s[2] + s[3]);                         \
		return v[0] + v[1];                                             \
	}

PAIR_LOOP(plain, (void)0)
PAIR_LOOP(plain_near, __builtin_prefetch(p + 2048 + k))

static int always(void) { return 1; }

static const struct {
	const char *name;
	loop run;
	int (*usable)(void);
} loops[] = {
	{"16 bytes", plain, always},
	{"16 bytes, prefetch 2048", plain_near, always},
#if defined(__x86_64__)
	{"avx2", avx2, has_avx2},
	{"avx2, prefetch 2048", avx2_near, has_avx2},
	{"avx2, prefetch 4352", avx2_far, has_avx2},
	{"avx512", avx512, has_avx512},
	{"avx512, prefetch 2048", avx512_near, has_avx512},
	{"avx512, prefetch 4352", avx512_far, has_avx512},
#endif
};
enum { LOOPS = sizeof loops / sizeof loops[0] };

static unsigned char *memory;
static size_t part; // bytes a thread, whole pieces
static int threads;
static loop current; // 0: end
static pthread_barrier_t ready, done;
static int cpus[CPU_SETSIZE];
static volatile uint64_t sink;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

// Threads meet between pieces. They poll, since sleeping would cost a tenth of one,
// but not for long: whom they wait for may need this CPU.
static int arrived, phase;

static void meet(void)
{
	int before = __atomic_load_n(&phase, __ATOMIC_ACQUIRE);
	if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == threads) {
		arrived = 0;
		__atomic_store_n(&phase, before + 1, __ATOMIC_RELEASE);
		return;
	}
	for (int polls = 0; __atomic_load_n(&phase, __ATOMIC_ACQUIRE) == before; polls++)
		if (polls > 10000)
			sched_yield();
}

static double *starts; // of every piece, and the end of the last

static void share(size_t i)
{
	for (size_t k = 0; k <= part / PIECE; k++) {
		meet();
		if (i == 0)
			starts[k] = now();
		if (k < part / PIECE)
			sink += current(memory + i * part + k * PIECE, PIECE);
	}
}

static void *work(void *arg)
{
	size_t i = (size_t)arg;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpus[i], &set);
	if (sched_setaffinity(0, sizeof set, &set))
		fail("read-bandwidth: binding a thread");
	for (;;) {
		pthread_barrier_wait(&ready);
		if (!current)
			return 0;
		share(i);
		pthread_barrier_wait(&done);
	}
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

// One pass; GB/s. The main thread is worker 0.
static double pass(loop l)
{
	current = l;
	pthread_barrier_wait(&ready);
	share(0);
	pthread_barrier_wait(&done);
	size_t n = part / PIECE;
	double speed[n];
	for (size_t k = 0; k < n; k++)
		speed[k] = (double)PIECE * threads / (starts[k + 1] - starts[k]) / 1e9;
	qsort(speed, n, sizeof *speed, by_size);
	return speed[n * 9 / 10];
}

int main(int argc, char **argv)
{
	int interactive = argc > 1 && !strcmp(argv[1], "-i");
	argv += interactive, argc -= interactive;
	cpu_set_t allowed;
	if (sched_getaffinity(0, sizeof allowed, &allowed))
		fail("read-bandwidth: allowed CPUs");
	int n = 0;
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &allowed))
			cpus[n++] = i;
	size_t mib = argc > 1 ? strtoul(argv[1], 0, 10) : 1024;
	threads = argc > 2 ? atoi(argv[2]) : n;
	int passes = argc > 3 ? atoi(argv[3]) : 5;
	if (mib < 1 || mib > 1 << 20 || threads < 1 || threads > n || passes < 1 || passes > 10000) {
		fprintf(stderr, "usage: read-bandwidth [-i] [MIB [THREADS, up to %d [PASSES]]]\n", n);
		return 2;
	}
	part = (mib << 20) / threads / PIECE * PIECE;
	starts = malloc(sizeof *starts * (part / PIECE + 1));
	if (part == 0 || !starts)
		fail("read-bandwidth: a piece of 16 MiB for every thread");
	memory = mmap(0, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		fail("read-bandwidth: memory");
	madvise(memory, mib << 20, MADV_HUGEPAGE);
	for (size_t i = 0; i < mib << 20; i += 8)
		*(uint64_t *)(memory + i) = i;

	pthread_barrier_init(&ready, 0, threads);
	pthread_barrier_init(&done, 0, threads);
	for (size_t i = 1; i < (size_t)threads; i++) {
		pthread_t t;
		if (pthread_create(&t, 0, work, (void *)i))
			fail("read-bandwidth: a thread");
	}
	cpu_set_t first;
	CPU_ZERO(&first);
	CPU_SET(cpus[0], &first);
	if (sched_setaffinity(0, sizeof first, &first))
		fail("read-bandwidth: binding a thread");

	if (interactive) {
		size_t fastest = 0;
		double best = 0;
		for (int i = 0; i < 3 * LOOPS; i++) {
			double v = loops[i % LOOPS].usable() ? pass(loops[i % LOOPS].run) : 0;
			if (v > best)
				best = v, fastest = i % LOOPS;
		}
		while (getchar() != EOF) {
			printf("%.3f\n", pass(loops[fastest].run));
			fflush(stdout);
		}
		return 0;
	}
	double *speed = malloc(sizeof *speed * LOOPS * passes);
	if (!speed)
		fail("read-bandwidth: memory");
	for (int i = 0; i < passes; i++)
		for (int l = 0; l < LOOPS; l++)
			speed[l * passes + i] = loops[l].usable() ? pass(loops[l].run) : 0;
	double best = 0;
	printf("%zu MiB, %d threads: GB/s, median and best of %d passes\n", mib, threads, passes);
	for (int l = 0; l < LOOPS; l++) {
		double *s = speed + l * passes;
		qsort(s, passes, sizeof *s, by_size);
		printf("%-24s %7.2f %7.2f\n", loops[l].name, s[passes / 2], s[passes - 1]);
		best = s[passes - 1] > best ? s[passes - 1] : best;
	}
	printf("%-24s %15.2f\n", "best", best);
	return 0;
}
