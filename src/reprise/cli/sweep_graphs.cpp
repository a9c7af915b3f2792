#include "reprise/cli/sweep_graphs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <string_view>
#include <vector>

#include "reprise/cli/progress.h"
#include "reprise/http_client/base_url.h"
#include "reprise/http_client/http_client.h"

namespace reprise::cli {
namespace {

size_t num_with(const Json& graphs, std::string_view state) {
  return static_cast<size_t>(std::ranges::count_if(
      graphs["keys"], [state](const Json& key) { return key["state"] == state; }));
}

/// The number after "tokens=" or "reqs=" in the name of a key; 0 if there is none.
int32_t number_in(std::string_view key, std::string_view name) {
  const size_t at = key.find(name);
  int32_t number = 0;
  if (at == std::string_view::npos) return 0;
  const char* begin = key.data() + at + name.size();
  std::from_chars(begin, key.data() + key.size(), number);
  return number;
}

/// The sizes of those captured keys of the main model for which `is_meant` returns true.
std::string sizes_text(const Json& graphs,
                       std::string_view unit,
                       const std::function<bool(std::string_view)>& is_meant) {
  std::vector<int32_t> sizes;
  for (const Json& key : graphs["keys"]) {
    const std::string name = key["key"];
    if (key["state"] == "captured" && is_meant(name)) sizes.push_back(number_in(name, unit));
  }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes.empty() ? "-" : fmt::format("{}", fmt::join(sizes, " "));
}

struct Row {
  const char* title;
  std::string (*text)(const Json& graphs);
};

const std::array kRows = {
    Row{"Graphs",
        [](const Json& graphs) { return fmt::format("{}", num_with(graphs, "captured")); }},
    Row{"Dropped, because they save no time",
        [](const Json& graphs) { return fmt::format("{}", num_with(graphs, "dropped")); }},
    Row{"Graph memory",
        [](const Json& graphs) { return format_bytes(graphs["graph_bytes"].get<size_t>()); }},
    Row{"Requests of FULL decode graphs",
        [](const Json& graphs) {
          return sizes_text(graphs, "reqs=", [](std::string_view key) {
            return key.starts_with("FULL:") && key.find("uniform") != std::string_view::npos;
          });
        }},
    Row{"Tokens of other graphs",
        [](const Json& graphs) {
          return sizes_text(graphs, "tokens=", [](std::string_view key) {
            return !key.starts_with("draft:") && key.find("uniform") == std::string_view::npos;
          });
        }},
};

}  // namespace

Json fetch_graphs(const std::string& port) {
  http_client::HttpClient client(http_client::parse_url("port", "http://127.0.0.1:" + port));
  const http_client::HttpReply reply = client.fetch({.target = "/v1/graphs"});
  if (reply.status != 200) return nullptr;
  Json graphs = parse_json(reply.body, "GET /v1/graphs");
  return graphs.contains("keys") ? graphs : Json(nullptr);
}

std::string graphs_table(std::span<const std::string> names, std::span<const Json> graphs) {
  if (std::ranges::all_of(graphs, [](const Json& json) { return json.is_null(); })) return "";
  std::string text = "Graphs of the servers\n\n| |";
  for (const std::string& name : names) text += fmt::format(" {} |", name);
  text += "\n|---|";
  for (size_t i = 0; i < names.size(); ++i) text += "---|";
  text += "\n";
  for (const Row& row : kRows) {
    text += fmt::format("| {} |", row.title);
    for (const Json& json : graphs) {
      text += fmt::format(" {} |", json.is_null() ? "-" : row.text(json));
    }
    text += "\n";
  }
  return text + "\n";
}

}  // namespace reprise::cli
