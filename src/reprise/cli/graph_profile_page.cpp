#include "reprise/cli/graph_profile_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/cli/graph_profile_text.h"
#include "reprise/cli/progress.h"
#include "reprise/compile/report/render_split.h"
#include "reprise/cudagraph/graph_key.h"

namespace reprise::cli {
namespace {

using compile::escape_xml;
using runner::GraphProfile;
using runner::ProfiledNode;

constexpr size_t kMostColours = 8;  // further ops share the grey one

// Colours that colour-blind readers can tell apart, after Okabe and Ito.
constexpr const char* kMicroscopeStyle = R"(
  :root { color-scheme: light dark; --line: #d1d9e0; --dim: #59636e; --back: #f6f8fa;
          --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #e69f00; --c5: #56b4e9;
          --c6: #8c6d1f; --c7: #5e3c99; --c8: #9aa4ae; }
  @media (prefers-color-scheme: dark) {
    :root { --line: #3d444d; --dim: #9da7b3; --back: #151b23;
            --c0: #3d9bd6; --c1: #f0793a; --c2: #2bbd93; --c3: #dd9dbf; --c4: #f0b73d; --c5: #8accf2;
            --c6: #c4a24a; --c7: #a58ad6; --c8: #7b8794; }
    body { color: #e6edf3; background: #0d1117; }
  }
  body { font: 15px/1.5 system-ui, sans-serif; max-width: 1120px; margin: 1.5rem auto;
         padding: 0 1rem; }
  h1 { font-size: 1.3rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
  dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.1rem 1.2rem; }
  dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
  .legend { display: flex; flex-wrap: wrap; gap: 0.2rem 1.2rem; margin: 0.6rem 0; }
  .legend i, td i { display: inline-block; width: 0.8em; height: 0.8em; margin-right: 0.4em;
                    border-radius: 2px; }
  .layer { display: grid; grid-template-columns: 2.6rem 1fr 5rem; gap: 0.5rem; align-items: center;
           line-height: 1.15; margin: 2px 0; font-variant-numeric: tabular-nums; }
  .layer > :first-child, .layer > :last-child { color: var(--dim); text-align: right; }
  .bar { display: flex; height: 1.15rem; }
  .bar span { min-width: 0; border-right: 1px solid Canvas; box-sizing: border-box; }
  .scroll { overflow-x: auto; }
  table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
  th, td { text-align: left; padding: 0.15rem 1rem 0.15rem 0; font-weight: 400;
           border-bottom: 1px solid var(--line); }
  th { color: var(--dim); } .n { text-align: right; }
  .share { width: 9rem; } .share div { height: 0.8rem; border-radius: 2px; }
  @media (max-width: 600px) { .share { display: none; } th, td { padding-right: 0.6rem; } }
  button { font: inherit; font-size: 13px; padding: 0 0.7rem; }
  form { display: inline; } td.note { white-space: normal; min-width: 12rem; }
  .state { padding: 0 0.5em; border-radius: 1em; border: 1px solid var(--line); }
  .captured { border-color: var(--c2); color: var(--c2); }
  .quarantined, .retired { border-color: var(--c1); color: var(--c1); }
  @media (max-width: 600px) {
    dl { grid-template-columns: 1fr; } dd { margin-bottom: 0.4rem; } td.note { min-width: 0; }
    td.key { white-space: normal; overflow-wrap: anywhere; }
  }
  .small { color: var(--dim); font-size: 13px; max-width: 46rem; }
)";

/// The colour of each op: the ops with the longest times have colours of their own.
class Colours {
 public:
  explicit Colours(const GraphProfile& profile) {
    for (const NodeGroup& group : group_by_op(profile)) ops_.push_back(group.name);
  }
  [[nodiscard]] std::string of(std::string_view op) const {
    const auto index = static_cast<size_t>(std::ranges::find(ops_, op) - ops_.begin());
    return fmt::format("var(--c{})", std::min(index, kMostColours));
  }

 private:
  std::vector<std::string> ops_;
};

bool has_times(const GraphProfile& profile) { return profile.why_no_node_times.empty(); }

/// The value that a bar shows: time or, where nodes have no times, bytes.
double length_of(const GraphProfile& profile, const ProfiledNode& node) {
  if (!has_times(profile)) return static_cast<double>(node.bytes_read() + node.bytes_written());
  return node.in_place ? node.in_place->median : 0;
}

double length_of(const GraphProfile& profile, const NodeGroup& group) {
  return has_times(profile) ? group.microseconds : static_cast<double>(group.bytes);
}

std::string length_text(const GraphProfile& profile, double length) {
  return has_times(profile) ? time_text(length) : format_bytes(static_cast<size_t>(length));
}

std::string page_begin(std::string_view title) {
  return fmt::format(
      "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
      "<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
      escape_xml(title),
      kMicroscopeStyle);
}

std::string fact_list(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string html = "<dl>\n";
  for (const auto& [name, value] : facts) {
    html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escape_xml(name), escape_xml(value));
  }
  return html + "</dl>\n";
}

std::string legend(const GraphProfile& profile, const Colours& colours) {
  const std::vector<NodeGroup> groups = group_by_op(profile);
  std::string html = "<div class=\"legend\">";
  for (size_t i = 0; i < std::min(groups.size(), kMostColours); ++i) {
    html += fmt::format("<span><i style=\"background:{}\"></i>{}</span>\n",
                        colours.of(groups[i].name),
                        escape_xml(groups[i].name));
  }
  if (groups.size() > kMostColours) {
    html += fmt::format("<span><i style=\"background:var(--c{})\"></i>{} more</span>\n",
                        kMostColours,
                        groups.size() - kMostColours);
  }
  return html + "</div>\n";
}

std::string layer_bars(const GraphProfile& profile, const Colours& colours) {
  const std::vector<LayerGroup> layers = group_by_layer(profile);
  double longest = 0;
  for (const LayerGroup& layer : layers) longest = std::max(longest, length_of(profile, layer));
  std::string html;
  for (const LayerGroup& layer : layers) {
    html += fmt::format("<div class=\"layer\"><span>{}</span><div class=\"bar\">", layer.name);
    for (size_t i = layer.first_node; i < layer.first_node + layer.num_nodes; ++i) {
      const ProfiledNode& node = profile.nodes[i];
      const double length = length_of(profile, node);
      html +=
          fmt::format("<span style=\"width:{:.3f}%;background:{}\" title=\"{}: {}, {}\"></span>",
                      longest > 0 ? 100 * length / longest : 0,
                      colours.of(node.op),
                      i,
                      escape_xml(node.kernel),
                      length_text(profile, length));
    }
    html += fmt::format("</div><span>{}</span></div>\n",
                        length_text(profile, length_of(profile, layer)));
  }
  return html;
}

std::string op_table(const GraphProfile& profile, const Colours& colours) {
  const std::vector<NodeGroup> groups = group_by_op(profile);
  double total = 0;
  double longest = 0;
  for (const NodeGroup& group : groups) {
    total += length_of(profile, group);
    longest = std::max(longest, length_of(profile, group));
  }
  std::string html =
      "<div class=\"scroll\"><table>\n<tr><th>op</th><th class=\"n\">nodes</th>"
      "<th class=\"n\">time</th><th class=\"n\">share</th><th class=\"share\"></th><th "
      "class=\"n\">read and written</th>"
      "<th class=\"n\">roof</th></tr>\n";
  for (const NodeGroup& group : groups) {
    const double length = 100 * length_of(profile, group);
    html += fmt::format(
        "<tr><td><i style=\"background:{0}\"></i>{1}</td><td class=\"n\">{2}</td><td "
        "class=\"n\">{3}</td><td class=\"n\">{4:.0f} %</td><td class=\"share\"><div "
        "style=\"width:{7:.2f}%;background:{0}\"></div></td><td class=\"n\">{5}</td><td "
        "class=\"n\">{6}</td></tr>\n",
        colours.of(group.name),
        escape_xml(group.name),
        group.num_nodes,
        has_times(profile) ? time_text(group.microseconds) : "-",
        total > 0 ? length / total : 0,
        format_bytes(group.bytes),
        roof_text(profile, group.bytes, group.microseconds),
        longest > 0 ? length / longest : 0);
  }
  return html + "</table></div>\n";
}

std::string node_table(const GraphProfile& profile, const Colours& colours) {
  std::string html =
      "<div class=\"scroll\"><table>\n<tr><th class=\"n\">#</th><th class=\"n\">layer</th>"
      "<th>kernel</th><th class=\"n\">in place</th><th class=\"n\">alone</th><th class=\"n\">read"
      "</th><th class=\"n\">written</th><th class=\"n\">roof</th><th class=\"n\">blocks</th>"
      "<th>begins</th><th>weight</th></tr>\n";
  for (size_t i = 0; i < profile.nodes.size(); ++i) {
    const ProfiledNode& node = profile.nodes[i];
    const auto time = [](const std::optional<runner::TimeSpread>& spread) {
      return spread ? time_text(spread->median) : std::string("-");
    };
    const char* begins = !node.is_captured         ? "between graphs"
                         : node.waits_for_previous ? "after a barrier"
                                                   : "at once";
    html += fmt::format(
        "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td><i style=\"background:{}\"></i>{}"
        "</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
        "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td>"
        "<td>{}</td></tr>\n",
        i,
        node.layer ? std::to_string(*node.layer) : "-",
        colours.of(node.op),
        escape_xml(node.kernel),
        time(node.in_place),
        time(node.alone),
        node.tells_uses ? format_bytes(node.bytes_read()) : "?",
        node.tells_uses ? format_bytes(node.bytes_written()) : "?",
        roof_text(profile,
                  node.bytes_read() + node.bytes_written(),
                  node.in_place ? node.in_place->median : 0),
        node.num_blocks,
        begins,
        escape_xml(node.weight));
  }
  return html + "</table></div>\n";
}

constexpr const char* kMethod =
    "<p class=\"small\">In place: in a replay of the whole graph, from the end of the node before "
    "to the end of this one. Alone: the node again and again, with its memory in the caches and a "
    "launch for each run. Times are medians. Roof: the time in which memory delivers the bytes, as "
    "a share of the time in place; more than 100 % means that the bytes came out of a cache.</p>\n";

}  // namespace

std::string profile_page(const GraphProfile& profile) {
  const std::string title = fmt::format("{} of {}",
                                        cudagraph::graph_key_text(profile.mode, profile.descriptor),
                                        profile.engine.value("model", "?"));
  const Colours colours(profile);
  const char* what = has_times(profile) ? "Time" : "Bytes";
  std::string html = page_begin(title) + fact_list(profile_head(profile));
  html += fmt::format("<h2>{} of each layer</h2>\n", what);
  html += legend(profile, colours) + layer_bars(profile, colours);
  html += fmt::format("<h2>{} of each op</h2>\n", what) + op_table(profile, colours);
  html += "<h2>Nodes</h2>\n" + node_table(profile, colours);
  return html + kMethod + "</body>\n</html>\n";
}

std::string graph_list_page(std::string_view title,
                            const std::vector<std::pair<std::string, std::string>>& facts,
                            const std::vector<ListedGraph>& graphs,
                            GraphLink link) {
  std::string html = page_begin(title) + fact_list(facts);
  html += fmt::format("<h2>{} graphs</h2>\n<div class=\"scroll\"><table>\n", graphs.size());
  html += "<tr><th>graph</th><th>state</th><th></th><th></th></tr>\n";
  for (const ListedGraph& graph : graphs) {
    std::string way;
    if (!graph.address.empty() && link == GraphLink::file) {
      way = fmt::format("<a href=\"{}\">nodes</a>", escape_xml(graph.address));
    } else if (!graph.address.empty()) {
      way = fmt::format("<form method=\"post\" action=\"{}\"><button>nodes</button></form>",
                        escape_xml(graph.address));
    }
    html += fmt::format(
        "<tr><td class=\"key\">{}</td><td><span class=\"state {}\">{}</span></td><td>{}</td>"
        "<td class=\"note\">{}</td></tr>\n",
        escape_xml(graph.key),
        escape_xml(graph.state),
        escape_xml(graph.state),
        way,
        escape_xml(graph.note));
  }
  html += "</table></div>\n";
  if (link == GraphLink::form) {
    html +=
        "<p class=\"small\">The button captures the graph anew, replays it and its nodes over "
        "made-up requests, and forgets the cached prefixes. It works while no request is "
        "answered.</p>\n";
  }
  return html + "</body>\n</html>\n";
}

std::string live_graphs_page(const Json& graphs) {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"cudagraph_mode", graphs.at("cudagraph_mode").get<std::string>()},
      {"level", graphs.at("compilation_level").get<std::string>()},
      {"verify_graphs", graphs.at("verify_graphs").get<std::string>()},
      {"shadow checks", fmt::format("{}", graphs.at("shadow_check_rate").get<double>())},
      {"memory", format_bytes(graphs.at("graph_bytes").get<size_t>())},
      {"since", graphs.at("since").get<std::string>()}};
  if (const Json& last = graphs.at("last_change"); !last.is_null()) {
    facts.emplace_back(
        "last change",
        fmt::format("{}: {}; {} given back, {} of {} captured in {:.1f} ms between {} steps",
                    last.at("change").get<uint64_t>(),
                    last.at("state").get<std::string>(),
                    last.at("given_back").get<size_t>(),
                    last.at("captured").get<size_t>(),
                    last.at("to_capture").get<size_t>(),
                    last.at("capture_ms").get<double>(),
                    last.at("between_steps").get<uint64_t>()));
  }
  std::vector<ListedGraph> list;
  for (const Json& key : graphs.at("keys")) {
    const std::string name = key.at("key");
    const std::string state = key.at("state");
    const bool has_page = state == "captured" && !name.starts_with("draft:");
    list.push_back({.key = name,
                    .state = state,
                    .note = key.value("reason", ""),
                    .address = has_page ? "graphs/" + name : ""});
  }
  return graph_list_page("Graphs of this server", facts, list, GraphLink::form);
}

}  // namespace reprise::cli
