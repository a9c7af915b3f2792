/* Text from a model, by the C interface.
 *
 *   cc -std=c11 story.c $(pkg-config --cflags --libs reprise) -o story && ./story models/reprise-tiny
 */
#include <reprise.h>

#include <stdio.h>

static int print_text(const char* text, void* user) {
  (void)user;
  fputs(text, stdout);
  fflush(stdout);
  return 0; /* go on */
}

int main(int argc, char** argv) {
  const char* arguments[] = {argc > 1 ? argv[1] : "models/reprise-tiny", "--max-model-len", "512"};
  reprise_engine* engine = NULL;
  if (reprise_load(arguments, 3, NULL, NULL, &engine) != REPRISE_OK) {
    fprintf(stderr, "story: %s\n", reprise_last_error());
    return 2;
  }
  reprise_sampling sampling = reprise_default_sampling();
  sampling.max_tokens = 40;
  sampling.temperature = 0;
  const reprise_status status =
      reprise_generate(engine, "Once upon a time", &sampling, print_text, NULL, NULL);
  if (status != REPRISE_OK) fprintf(stderr, "story: %s\n", reprise_last_error());
  putchar('\n');
  reprise_unload(engine);
  return status == REPRISE_OK ? 0 : 1;
}
