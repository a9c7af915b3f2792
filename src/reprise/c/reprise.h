/* The C interface of Reprise: load a model, generate with a callback, tokenize, make vectors.
 *
 * Strings are UTF-8 and end with a zero byte. Text that a function returns through a `char**`
 * belongs to the caller, who frees it with reprise_free(). Everything else is borrowed for the time
 * of the call, unless a comment says more.
 *
 * Threads: any thread may call any function at any time, also several with the same engine at once;
 * their requests then run as one batch. Callbacks run on the thread of the call that they belong
 * to. reprise_unload() must be the last call with its engine.
 *
 * Errors: a function that can fail returns a reprise_status. reprise_last_error() says why the last
 * call of the same thread failed. No exception leaves a function.
 *
 * An example is examples/c/story.c; docs/howto/embed-in-c.md shows how to build and use it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with each function or member that is added. Nothing is taken away within a version of the
 * shared library's name. */
#define REPRISE_C_VERSION 1

typedef enum reprise_status {
  REPRISE_OK = 0,
  REPRISE_INVALID_ARGUMENT = 1, /* of the caller: an option, a file, a field, a length */
  REPRISE_BUSY = 2,             /* too many requests run or wait; try again later */
  REPRISE_OUT_OF_MEMORY = 3,
  REPRISE_CANCELLED = 4, /* a callback asked for it */
  REPRISE_FAILED = 5     /* anything else, such as a lost device */
} reprise_status;

/* A loaded model. */
typedef struct reprise_engine reprise_engine;

/* "0.1.0". Never NULL, not to be freed. */
const char* reprise_version(void);
/* Why the last call of this thread failed; "" if none has. Borrowed until the next call of this
 * thread. */
const char* reprise_last_error(void);
/* Frees text that a function returned. NULL is allowed. */
void reprise_free(char* text);

/* Gets a line about the start, without a line end. */
typedef void (*reprise_log_fn)(const char* line, void* user);

/* Loads a model. `arguments` are those of `reprise generate` on a command line: the model first,
 * then options such as "--max-model-len", "4096". As there, options may also come from
 * REPRISE_ARG_* variables. `log` may be NULL; it is called only during this call. Sets *engine only
 * on success. */
reprise_status reprise_load(const char* const* arguments,
                            size_t num_arguments,
                            reprise_log_fn log,
                            void* user,
                            reprise_engine** engine);
/* Ends requests that still run (their calls return REPRISE_FAILED) and frees the model. NULL is
 * allowed. */
void reprise_unload(reprise_engine* engine);

/* How tokens are chosen. A negative number means what the model's authors recommend. */
typedef struct reprise_sampling {
  int32_t max_tokens; /* at most so many tokens; negative: 16, as in OpenAI's API */
  float temperature;  /* 0 is greedy */
  float top_p;
  int32_t top_k; /* 0: off */
  int64_t seed;  /* negative: another one for each request */
} reprise_sampling;
/* All members negative. */
reprise_sampling reprise_default_sampling(void);

/* Gets text as it is generated; may be called with parts of words, never with parts of characters.
 * Returning anything but 0 ends the request, and its call returns REPRISE_CANCELLED. */
typedef int (*reprise_text_fn)(const char* text, void* user);

/* Continues a prompt. `sampling`, `on_text` and `text` may be NULL. *text gets the whole answer. */
reprise_status reprise_generate(reprise_engine* engine,
                                const char* prompt,
                                const reprise_sampling* sampling,
                                reprise_text_fn on_text,
                                void* user,
                                char** text);

/* Gets a chunk of a stream as JSON. Return value as for reprise_text_fn. */
typedef int (*reprise_event_fn)(const char* json, void* user);

/* Everything that the server can do, without a server: sends the JSON `body` to `path`, one of
 * "/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/pooling", "/classify", "/score"
 * and
 * "/rerank". *answer gets the JSON of the answer, or stays as it is if the body asks for a stream:
 * then `on_event`, which must not be NULL, gets its chunks. */
reprise_status reprise_post(reprise_engine* engine,
                            const char* path,
                            const char* body,
                            reprise_event_fn on_event,
                            void* user,
                            char** answer);

/* The token ids of a text of `num_bytes` bytes. At most `capacity` of them are written to `ids`,
 * which may be NULL if that is 0; *count gets the number that there are. `add_special_tokens`:
 * whether BOS and the like go around the text. */
reprise_status reprise_tokenize(reprise_engine* engine,
                                const char* text,
                                size_t num_bytes,
                                int add_special_tokens,
                                int32_t* ids,
                                size_t capacity,
                                size_t* count);
/* The text of token ids. */
reprise_status reprise_detokenize(reprise_engine* engine,
                                  const int32_t* ids,
                                  size_t count,
                                  char** text);

/* The vector of a text, by a model that makes vectors. At most `capacity` numbers are written to
 * `vector`, which may be NULL if that is 0; *count gets the number that there are. */
reprise_status reprise_embed(
    reprise_engine* engine, const char* text, float* vector, size_t capacity, size_t* count);

#ifdef __cplusplus
}
#endif
