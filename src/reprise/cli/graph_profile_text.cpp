#include "reprise/cli/graph_profile_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "reprise/cli/progress.h"
#include "reprise/cli/terminal.h"
#include "reprise/cudagraph/graph_key.h"

namespace reprise::cli {
namespace {

using runner::GraphProfile;
using runner::NodePair;
using runner::ProfiledNode;
using runner::TimeSpread;

constexpr size_t kColumns = 80;
constexpr size_t kKeyWidth = 36;  // in the list of keys
// Further layers are summed up, so that the whole text fits on a screen.
constexpr size_t kMostLayers = 24;

double time_of(const ProfiledNode& node) { return node.in_place ? node.in_place->median : 0; }

uint64_t bytes_of(const ProfiledNode& node) { return node.bytes_read() + node.bytes_written(); }

void add_to(NodeGroup& group, const ProfiledNode& node) {
  ++group.num_nodes;
  group.microseconds += time_of(node);
  group.bytes += bytes_of(node);
}

double total_time(const GraphProfile& profile) {
  double sum = 0;
  for (const ProfiledNode& node : profile.nodes) sum += time_of(node);
  return sum;
}

std::string quartiles_text(const TimeSpread& spread) {
  return fmt::format(
      "{} ({} to {})", time_text(spread.median), time_text(spread.low), time_text(spread.high));
}

std::string percent(double share) { return fmt::format("{:.0f} %", share * 100); }

std::string bar(double share, size_t width) {
  const auto filled = static_cast<size_t>(std::lround(share * static_cast<double>(width)));
  return std::string(std::min(filled, width), '#');
}

std::string count_text(int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string serves_text(const runner::PaddingWaste& padding) {
  if (padding.most_tokens == 0) return "no batch: for each batch, another graph is better";
  const std::string sizes =
      padding.fewest_tokens == padding.most_tokens
          ? count_text(padding.most_tokens, "token")
          : fmt::format("{} to {} tokens", padding.fewest_tokens, padding.most_tokens);
  if (padding.largest_share == 0) return fmt::format("batches of {}, without padding", sizes);
  return fmt::format("batches of {}; padding is {} of the rows on average, {} at most",
                     sizes,
                     percent(padding.mean_share),
                     percent(padding.largest_share));
}

std::string nodes_text(const GraphProfile& profile) {
  const auto count = [&](auto is_counted) {
    return std::ranges::count_if(profile.nodes, is_counted);
  };
  std::string text = fmt::format("{}, {}",
                                 count_text(static_cast<int64_t>(profile.nodes.size()), "node"),
                                 count_text(count([](const ProfiledNode& node) {
                                              return node.is_captured && node.waits_for_previous;
                                            }),
                                            "barrier"));
  if (const auto eager = count([](const ProfiledNode& node) { return !node.is_captured; })) {
    text += fmt::format(", {} of them run eagerly between graphs", eager);
  }
  if (const auto untold = count([](const ProfiledNode& node) { return !node.tells_uses; })) {
    text += fmt::format(", {} of a library that does not report the memory that they use", untold);
  }
  const double inside = total_time(profile);
  if (inside > 0) text += fmt::format("; together {}", time_text(inside));
  return text;
}

void append_table_head(std::string& text, std::string_view what) {
  text += fmt::format("\n{:<28}{:>5} {:>9} {:>6}  {:<12}{:>10}{:>6}\n",
                      what,
                      "nodes",
                      "time",
                      "share",
                      "",
                      "bytes",
                      "roof");
}

void append_group(std::string& text,
                  const GraphProfile& profile,
                  const NodeGroup& group,
                  double longest) {
  const double total = total_time(profile);
  const double share = total > 0 ? group.microseconds / total : 0;
  text += fmt::format("{:<28.28}{:>5} {:>9} {:>6}  {:<12}{:>10}{:>6}\n",
                      group.name,
                      group.num_nodes,
                      total > 0 ? time_text(group.microseconds) : "-",
                      total > 0 ? percent(share) : "-",
                      bar(longest > 0 ? group.microseconds / longest : 0, 11),
                      format_bytes(group.bytes),
                      roof_text(profile, group.bytes, group.microseconds));
}

/// If there are more layers than a screen holds: one line for each layer that differs from the
/// others by more than a tenth, and one line for all others.
void append_layers(std::string& text, const GraphProfile& profile) {
  const std::vector<LayerGroup> layers = group_by_layer(profile);
  append_table_head(text, "layer");
  double longest = 0;
  std::vector<double> times;
  for (const LayerGroup& layer : layers) {
    longest = std::max(longest, layer.microseconds);
    times.push_back(layer.microseconds);
  }
  const double usual = times.empty() ? 0 : runner::spread_of(times).median;
  NodeGroup others;
  size_t num_others = 0;
  for (const LayerGroup& layer : layers) {
    if (layers.size() <= kMostLayers || layer.name == "-" ||
        std::abs(layer.microseconds - usual) > usual / 10) {
      append_group(text, profile, layer, longest);
      continue;
    }
    ++num_others;
    others.num_nodes += layer.num_nodes;
    others.microseconds += layer.microseconds;
    others.bytes += layer.bytes;
  }
  if (num_others == 0) return;
  others.name = fmt::format("{} more, {} each", num_others, time_text(usual));
  append_group(text, profile, others, longest);
}

void append_nodes(std::string& text, const GraphProfile& profile) {
  text += fmt::format("\n{:>4} {:>5}  {:<23}{:>9}{:>10}{:>10}{:>10}{:>6}\n",
                      "#",
                      "layer",
                      "op (. a barrier before)",
                      "in place",
                      "alone",
                      "read",
                      "written",
                      "roof");
  for (size_t i = 0; i < profile.nodes.size(); ++i) {
    const ProfiledNode& node = profile.nodes[i];
    const char* mark = !node.is_captured ? "eager " : node.waits_for_previous ? "." : " ";
    text += fmt::format("{:>4} {:>5}  {:<23.23}{:>9}{:>10}{:>10}{:>10}{:>6}\n",
                        i,
                        node.layer ? std::to_string(*node.layer) : "-",
                        mark + node.op,
                        node.in_place ? time_text(node.in_place->median) : "-",
                        node.alone ? time_text(node.alone->median) : "-",
                        node.tells_uses ? format_bytes(node.bytes_read()) : "?",
                        node.tells_uses ? format_bytes(node.bytes_written()) : "?",
                        roof_text(profile, bytes_of(node), time_of(node)));
  }
}

std::string change_text(double a, double b) {
  if (a <= 0 || b <= 0) return "-";
  const double change = std::round((b / a - 1) * 100);
  return change == 0 ? "0 %" : fmt::format("{:+.0f} %", change);
}

/// The kernel's name without the name of its op: element types and instruction set.
std::string_view variant_of(const ProfiledNode& node) {
  std::string_view kernel = node.kernel;
  if (kernel.size() > node.op.size() + 1 && kernel.starts_with(node.op)) {
    kernel.remove_prefix(node.op.size() + 1);
  }
  return kernel;
}

std::string side_text(const GraphProfile& profile) {
  return fmt::format("{} of {}, one replay {}",
                     cudagraph::graph_key_text(profile.mode, profile.descriptor),
                     profile.engine.value("model", "?"),
                     quartiles_text(profile.replay));
}

void append_wrapped(std::string& text, std::string_view name, std::string_view value) {
  text += fmt::format("{:<10}{}\n", name, wrap(value, 10, 10, kColumns));
}

void append_op_changes(std::string& text, const GraphProfile& a, const GraphProfile& b) {
  text += fmt::format("\n{:<28}{:>6}{:>6} {:>10} {:>10} {:>8}\n",
                      "op",
                      "in A",
                      "in B",
                      "time in A",
                      "time in B",
                      "change");
  std::vector<NodeGroup> of_b = group_by_op(b);
  const auto append = [&](const NodeGroup& in_a, const NodeGroup& in_b) {
    text += fmt::format("{:<28.28}{:>6}{:>6} {:>10} {:>10} {:>8}\n",
                        in_a.num_nodes > 0 ? in_a.name : in_b.name,
                        in_a.num_nodes,
                        in_b.num_nodes,
                        in_a.microseconds > 0 ? time_text(in_a.microseconds) : "-",
                        in_b.microseconds > 0 ? time_text(in_b.microseconds) : "-",
                        change_text(in_a.microseconds, in_b.microseconds));
  };
  for (const NodeGroup& group : group_by_op(a)) {
    const auto same = std::ranges::find(of_b, group.name, &NodeGroup::name);
    if (same == of_b.end()) {
      append(group, {});
      continue;
    }
    append(group, *same);
    of_b.erase(same);
  }
  for (const NodeGroup& group : of_b) append({}, group);
}

std::string pair_text(const GraphProfile& a, const GraphProfile& b, const NodePair& pair) {
  const ProfiledNode& node = pair.a ? a.nodes[*pair.a] : b.nodes[*pair.b];
  std::vector<std::string> what;
  if (!pair.b) what.emplace_back("only in A");
  if (!pair.a) what.emplace_back("only in B");
  if (pair.has_other_kernel) {
    what.push_back(
        fmt::format("kernel {} -> {}", variant_of(a.nodes[*pair.a]), variant_of(b.nodes[*pair.b])));
  }
  if (pair.has_other_bytes) {
    what.push_back(fmt::format("{} -> {}",
                               format_bytes(bytes_of(a.nodes[*pair.a])),
                               format_bytes(bytes_of(b.nodes[*pair.b]))));
  }
  if (pair.time != runner::TimeChange::same) {
    const double before = time_of(a.nodes[*pair.a]);
    const double after = time_of(b.nodes[*pair.b]);
    what.push_back(fmt::format(
        "{} -> {} ({})", time_text(before), time_text(after), change_text(before, after)));
  }
  const auto number = [](const std::optional<size_t>& index) {
    return index ? std::to_string(*index) : std::string("-");
  };
  std::string line;
  for (const std::string& part : what) line += (line.empty() ? "" : "; ") + part;
  return fmt::format("{:>5}{:>5} {:>5}  {:<20.20} {}\n",
                     number(pair.a),
                     number(pair.b),
                     node.layer ? std::to_string(*node.layer) : "-",
                     node.op,
                     wrap(line, 39, 39, kColumns));
}

/// How much a pair deserves a line: a node of only one side counts by its time, a pair of nodes by
/// the change of the time.
double weight_of(const GraphProfile& a, const GraphProfile& b, const NodePair& pair) {
  const double before = pair.a ? time_of(a.nodes[*pair.a]) : 0;
  const double after = pair.b ? time_of(b.nodes[*pair.b]) : 0;
  return std::abs(after - before);
}

void append_pairs(std::string& text,
                  const GraphProfile& a,
                  const GraphProfile& b,
                  const runner::GraphDiff& diff,
                  bool lists_all) {
  constexpr size_t kMostPairs = 12;
  std::vector<const NodePair*> shown;
  for (const NodePair& pair : diff.nodes) {
    if (!pair.is_in_both() || pair.has_other_kernel || pair.has_other_bytes ||
        pair.time != runner::TimeChange::same) {
      shown.push_back(&pair);
    }
  }
  if (shown.empty()) return;
  const size_t num_found = shown.size();
  if (!lists_all && num_found > kMostPairs) {
    std::ranges::stable_sort(shown, [&](const NodePair* one, const NodePair* other) {
      return weight_of(a, b, *one) > weight_of(a, b, *other);
    });
    shown.resize(kMostPairs);
    // Puts them back into the order of the replay: the pairs lie in one vector in this order.
    std::ranges::sort(shown);
  }
  text += fmt::format("\n{:>5}{:>5} {:>5}  {:<20} {}\n", "A", "B", "layer", "op", "what differs");
  for (const NodePair* pair : shown) text += pair_text(a, b, *pair);
  if (shown.size() < num_found) {
    text += fmt::format("{} more nodes that matter less; --nodes lists all\n",
                        num_found - shown.size());
  }
}

}  // namespace

std::string time_text(double microseconds) {
  if (microseconds < 1000) return fmt::format("{:.1f} us", microseconds);
  if (microseconds < 1e6) return fmt::format("{:.2f} ms", microseconds / 1e3);
  return fmt::format("{:.2f} s", microseconds / 1e6);
}

std::string roof_text(const GraphProfile& profile, uint64_t bytes, double microseconds) {
  const std::optional<double> roof = profile.roof_us(bytes);
  if (!roof || microseconds <= 0) return "-";
  const double share = *roof / microseconds;
  return share < 9.995 ? percent(share) : ">999%";
}

std::vector<NodeGroup> group_by_op(const GraphProfile& profile) {
  std::vector<NodeGroup> groups;
  for (const ProfiledNode& node : profile.nodes) {
    auto group = std::ranges::find(groups, node.op, &NodeGroup::name);
    if (group == groups.end()) group = groups.insert(group, NodeGroup{.name = node.op});
    add_to(*group, node);
  }
  std::ranges::stable_sort(groups, [](const NodeGroup& a, const NodeGroup& b) {
    return std::pair(a.microseconds, a.bytes) > std::pair(b.microseconds, b.bytes);
  });
  return groups;
}

std::vector<LayerGroup> group_by_layer(const GraphProfile& profile) {
  std::vector<LayerGroup> groups;
  for (size_t i = 0; i < profile.nodes.size(); ++i) {
    const ProfiledNode& node = profile.nodes[i];
    std::string name = node.layer ? std::to_string(*node.layer) : "-";
    if (groups.empty() || groups.back().name != name) {
      LayerGroup& group = groups.emplace_back();
      group.name = std::move(name);
      group.first_node = i;
    }
    add_to(groups.back(), node);
  }
  return groups;
}

std::vector<std::pair<std::string, std::string>> profile_head(const GraphProfile& profile) {
  std::vector<std::pair<std::string, std::string>> lines;
  const double saved = 1 - profile.replay.median / profile.eager.median;
  lines.emplace_back(
      "replay",
      fmt::format(
          "{}: median and quartiles of {}", quartiles_text(profile.replay), profile.num_replays));
  lines.emplace_back("eager",
                     fmt::format("{}: the graph {} {}",
                                 quartiles_text(profile.eager),
                                 saved >= 0 ? "saves" : "costs",
                                 percent(std::abs(saved))));
  lines.emplace_back("step",
                     fmt::format("{} of {}, each with {} in the cache",
                                 count_text(profile.num_reqs, "request"),
                                 count_text(profile.num_tokens / profile.num_reqs, "token"),
                                 count_text(profile.context_len, "token")));
  lines.emplace_back("serves", serves_text(profile.padding));
  lines.emplace_back("nodes", nodes_text(profile));
  const uint64_t bytes = profile.bytes_read() + profile.bytes_written();
  std::string memory = fmt::format("{} read, {} written",
                                   format_bytes(profile.bytes_read()),
                                   format_bytes(profile.bytes_written()));
  if (const auto roof = profile.roof_us(bytes)) {
    memory += fmt::format("; at {:.1f} GB/s from memory that is {}: {} of the replay",
                          *profile.memory_gb_s,
                          time_text(*roof),
                          percent(*roof / profile.replay.median));
  }
  lines.emplace_back("memory", std::move(memory));
  if (!profile.why_no_node_times.empty()) lines.emplace_back("times", profile.why_no_node_times);
  lines.emplace_back("engine",
                     fmt::format("{}, {}, {}, {}, level {}",
                                 profile.engine.value("device", "?"),
                                 profile.engine.value("cpu_isa", ""),
                                 profile.engine.value("dtype", "?"),
                                 profile.engine.value("cudagraph_mode", "?"),
                                 profile.engine.value("compilation_level", "?")));
  return lines;
}

std::string profile_text(const GraphProfile& profile, bool lists_nodes) {
  const std::string title = fmt::format("{} of {}",
                                        cudagraph::graph_key_text(profile.mode, profile.descriptor),
                                        profile.engine.value("model", "?"));
  std::string text = wrap(title, 0, 2, kColumns) + '\n';
  for (const auto& [name, value] : profile_head(profile)) append_wrapped(text, name, value);
  if (lists_nodes) {
    append_nodes(text, profile);
    return text;
  }
  append_table_head(text, "op");
  const std::vector<NodeGroup> ops = group_by_op(profile);
  for (const NodeGroup& op : ops) append_group(text, profile, op, ops.front().microseconds);
  append_layers(text, profile);
  return text;
}

std::string profile_list_head() {
  return fmt::format("{:<{}}{:>6} {:>9} {:>9} {:>9} {:>6}\n",
                     "key",
                     kKeyWidth,
                     "nodes",
                     "replay",
                     "eager",
                     "tokens",
                     "waste");
}

std::string profile_list_line(const GraphProfile& profile) {
  const runner::PaddingWaste& padding = profile.padding;
  std::string key = cudagraph::graph_key_text(profile.mode, profile.descriptor);
  std::string text;
  if (key.size() > kKeyWidth) text = std::exchange(key, "") + '\n';
  return text + fmt::format("{:<{}}{:>6} {:>9} {:>9} {:>9} {:>6}\n",
                            key,
                            kKeyWidth,
                            profile.nodes.size(),
                            time_text(profile.replay.median),
                            time_text(profile.eager.median),
                            fmt::format("{}-{}", padding.fewest_tokens, padding.most_tokens),
                            percent(padding.mean_share));
}

std::string diff_text(const GraphProfile& a,
                      const GraphProfile& b,
                      const runner::GraphDiff& diff,
                      bool lists_nodes) {
  std::string text = wrap(verdict_of(a, b, diff), 0, 2, kColumns) + '\n';
  append_wrapped(text, "A", side_text(a));
  append_wrapped(text, "B", side_text(b));
  for (const std::string& engine : diff.engines) append_wrapped(text, "differs", engine);
  append_wrapped(text,
                 "nodes",
                 fmt::format("{} and {}; {} slower in B, {} faster",
                             a.nodes.size(),
                             b.nodes.size(),
                             diff.num_slower,
                             diff.num_faster));
  append_op_changes(text, a, b);
  append_pairs(text, a, b, diff, lists_nodes);
  return text;
}

}  // namespace reprise::cli
