// A library for LD_PRELOAD that lets threads sleep for a random moment around mutexes, condition variables and thread
// starts, so that orders of events happen that are rare on an idle machine. scripts/test_with_delays.sh builds and uses it.
//
//   DELAY_LOCKS_SEED    start of the random numbers, 1 by default. Each thread draws its own numbers, by the order of first
//                       use: the same seed gives similar runs, not the same one.
//   DELAY_LOCKS_EVERY   one of so many places sleeps, 50 by default
//   DELAY_LOCKS_MICROS  longest sleep in microseconds, 3000 by default and at most 1000000
//   DELAY_LOCKS_REPORT  if set: the process says on standard error how often it slept
//
// Nothing here allocates memory or takes a lock: it also runs in allocators and in the constructors of other libraries.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t seed = 1;
static uint64_t every = 50;
static uint64_t longest_micros = 3000;
static atomic_ulong threads;
static atomic_ulong sleeps;
static __thread uint64_t numbers __attribute__((tls_model("initial-exec")));

static uint64_t setting(const char* name, uint64_t otherwise, uint64_t most) {
  const char* text = getenv(name);
  if (text == NULL) return otherwise;
  char* end = NULL;
  const uint64_t value = strtoull(text, &end, 10);
  if (end == text || *end != '\0' || value < 1 || value > most) {
    fprintf(stderr, "delay_locks: %s is '%s', expected a whole number from 1 to %llu\n", name, text, (unsigned long long)most);
    _Exit(2);
  }
  return value;
}

__attribute__((constructor)) static void read_settings(void) {
  seed = setting("DELAY_LOCKS_SEED", seed, UINT32_MAX);
  every = setting("DELAY_LOCKS_EVERY", every, UINT32_MAX);
  longest_micros = setting("DELAY_LOCKS_MICROS", longest_micros, 1000000);
}

__attribute__((destructor)) static void report(void) {
  if (getenv("DELAY_LOCKS_REPORT") != NULL) fprintf(stderr, "delay_locks: slept %lu times\n", atomic_load(&sleeps));
}

static uint64_t draw(void) {  // splitmix64
  if (numbers == 0) numbers = (seed << 32) + 0x632be59bd9b4e019u * (atomic_fetch_add(&threads, 1) + 1);
  uint64_t z = (numbers += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static void maybe_sleep(void) {
  if (draw() % every != 0) return;
  const int kept = errno;  // the functions below do not change it
  const uint64_t micros = 1 + draw() % longest_micros;
  const struct timespec time = {(time_t)(micros / 1000000), (long)(micros % 1000000) * 1000};
  nanosleep(&time, NULL);
  atomic_fetch_add(&sleeps, 1);
  errno = kept;
}

// Returns the next definition of a function. For condition variables, glibc on x86-64 also has the
// functions of before 2.3.2 under the same names, with another layout, and dlsym() may find those.
// So the newer functions are asked for by version.
static void* next(const char* name) {
  void* found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
  if (found == NULL) found = dlsym(RTLD_NEXT, name);
  if (found == NULL) {
    fprintf(stderr, "delay_locks: there is no %s behind this library\n", name);
    _Exit(2);
  }
  return found;
}

// Defines `name`: it may sleep, calls the next definition, and may sleep again. If two threads look
// the function up at the same time, both store the same address.
#define DELAYED(name, parameters, arguments)                                        \
  int name parameters {                                                             \
    static _Atomic(void*) known;                                                    \
    void* found = atomic_load_explicit(&known, memory_order_relaxed);               \
    if (found == NULL) atomic_store(&known, found = next(#name));                   \
    maybe_sleep();                                                                  \
    const int result = ((int (*) parameters)found)arguments;                        \
    maybe_sleep();                                                                  \
    return result;                                                                  \
  }

DELAYED(pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))
DELAYED(pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex))
DELAYED(pthread_mutex_unlock, (pthread_mutex_t * mutex), (mutex))
DELAYED(pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t* mutex), (condition, mutex))
DELAYED(pthread_cond_timedwait, (pthread_cond_t * condition, pthread_mutex_t* mutex, const struct timespec* until),
        (condition, mutex, until))
DELAYED(pthread_cond_clockwait,
        (pthread_cond_t * condition, pthread_mutex_t* mutex, clockid_t clock, const struct timespec* until),
        (condition, mutex, clock, until))
DELAYED(pthread_cond_signal, (pthread_cond_t * condition), (condition))
DELAYED(pthread_cond_broadcast, (pthread_cond_t * condition), (condition))

// The function that a new thread runs, with its argument. A start uses one record from the call of
// pthread_create() until the new thread runs.
struct start {
  atomic_flag taken;
  void* (*function)(void*);
  void* argument;
};
static struct start starts[64];

static void* sleep_and_run(void* given) {
  struct start* start = given;
  void* (*function)(void*) = start->function;
  void* argument = start->argument;
  atomic_flag_clear(&start->taken);
  maybe_sleep();
  return function(argument);
}

// Starts of threads are rare compared to locks, so the creator draws its own delays, too. If no
// record is free, the new thread starts without a delay.
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*), void* argument) {
  int (*create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) = dlsym(RTLD_NEXT, "pthread_create");
  maybe_sleep();
  int result = 0;
  struct start* mine = NULL;
  for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]) && mine == NULL; ++i) {
    if (!atomic_flag_test_and_set(&starts[i].taken)) mine = &starts[i];
  }
  if (mine == NULL) {
    result = create(thread, attributes, function, argument);
  } else {
    mine->function = function;
    mine->argument = argument;
    result = create(thread, attributes, sleep_and_run, mine);
    if (result != 0) atomic_flag_clear(&mine->taken);
  }
  maybe_sleep();
  return result;
}
