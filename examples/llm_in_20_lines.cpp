// Text from a model folder in the Hugging Face layout.
//
//   llm_in_20_lines models/reprise-tiny
#include <cstdio>

#include "reprise/api/llm.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/base/error.h"
#include "reprise/runner/model_runner.h"

int main(int argc, char** argv) try {
  reprise::api::LLM llm({.model = argc > 1 ? argv[1] : "models/reprise-tiny"});
  const std::vector<std::string> questions = {
      "Tom has 14 apples. He buys 23 more. How many apples does Tom have now?",
      "Anna has 12 pens. She gives 5 to Ben. How many pens does Anna have left?"};
  std::vector<std::string> prompts;
  for (const std::string& question : questions) {
    prompts.push_back(
        llm.apply_chat_template(reprise::Json::array({{{"role", "user"}, {"content", question}}})));
  }
  const auto answers = llm.generate(prompts, {.temperature = 0, .max_tokens = 64});
  for (size_t i = 0; i < answers.size(); ++i) {
    std::printf("%s\n%s\n\n", questions[i].c_str(), answers[i].output.text.c_str());
  }
  std::printf("launches per decode step: %d\n",
              static_cast<int>(llm.loaded().runner->last_decode_launches().total()));
} catch (const reprise::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
