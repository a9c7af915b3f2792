#include "reprise/bench/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"
#include "reprise/bench/file_datasets.h"
#include "reprise/bench/random_datasets.h"
#include "reprise/bench/trace_dataset.h"

namespace reprise::bench {
namespace {

using MakeRequests = std::vector<SampleRequest> (*)(const DatasetOptions&,
                                                    const DatasetTools&,
                                                    RandomSource&);
struct Dataset {
  std::string_view name;
  bool is_file;
  MakeRequests make;
};
constexpr std::array kDatasets = {
    Dataset{"random", false, make_random_requests},
    Dataset{"sharegpt", true, make_sharegpt_requests},
    Dataset{"sonnet", true, make_sonnet_requests},
    Dataset{"custom", true, make_custom_requests},
    Dataset{"prefix_repetition", false, make_prefix_repetition_requests},
    Dataset{"timed_trace", true, make_timed_trace_requests}};

// A file with too few requests is read again from the start, as in vLLM.
void oversample(std::vector<SampleRequest>& requests,
                const DatasetOptions& options,
                RandomSource& random) {
  const auto wanted = static_cast<size_t>(options.num_prompts);
  const size_t found = requests.size();
  if (found >= wanted || options.no_oversample) return;
  requests.reserve(wanted);
  while (requests.size() < wanted) {
    const int64_t index = random.integer(0, static_cast<int64_t>(found) - 1);
    requests.push_back(requests[static_cast<size_t>(index)]);
  }
}

}  // namespace

std::vector<SampleRequest> make_requests(const DatasetOptions& options,
                                         const DatasetTools& tools,
                                         RandomSource& random) {
  std::vector<std::string_view> names;
  for (const Dataset& dataset : kDatasets) names.push_back(dataset.name);
  const auto* dataset =
      std::find_if(kDatasets.begin(), kDatasets.end(), [&](const Dataset& candidate) {
        return candidate.name == options.name;
      });
  if (dataset == kDatasets.end()) {
    throw InvalidArgument(fmt::format("--dataset-name: '{}' is not one of {}{}",
                                      options.name,
                                      dataset_names(),
                                      did_you_mean(options.name, names)));
  }
  if (options.num_prompts < 1) {
    throw InvalidArgument(
        fmt::format("--num-prompts: {} is not a positive number", options.num_prompts));
  }
  if (dataset->is_file && options.path.empty()) {
    throw InvalidArgument(fmt::format("--dataset-name {} needs --dataset-path FILE", options.name));
  }
  if (!dataset->is_file && !options.path.empty()) {
    throw InvalidArgument(fmt::format(
        "--dataset-path: '{}' is a file, and --dataset-name {} reads none; say which dataset it is",
        options.path.string(),
        options.name));
  }
  std::vector<SampleRequest> requests = dataset->make(options, tools, random);
  if (requests.empty()) {
    throw FileError(
        "E_DATASET",
        options.path.string(),
        "",
        fmt::format("no request of this file can be used as --dataset-name {}", options.name));
  }
  // A request of a trace has its own time, so it is not sent twice.
  if (!requests.front().send_time) oversample(requests, options, random);
  return requests;
}

std::string dataset_names() {
  std::string text;
  for (const Dataset& dataset : kDatasets) {
    text += text.empty() ? "" : ", ";
    text += dataset.name;
  }
  return text;
}

}  // namespace reprise::bench
