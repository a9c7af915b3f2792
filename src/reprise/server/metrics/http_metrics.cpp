#include <array>

#include "reprise/server/metrics/metric_table.h"

namespace reprise::server {
namespace {

using Out = FamilyWriter&;
using From = const MetricsSource&;

void write_requests(Out out, From from) {
  for (const auto& [key, count] : from.http.requests()) {
    const auto& [handler, method, status] = key;
    out.count(count, {{"handler", handler}, {"method", method}, {"status", status}});
  }
}

void write_durations(Out out, From from) {
  for (const auto& [key, histogram] : from.http.durations()) {
    out.histogram(histogram, {{"handler", key.first}, {"method", key.second}});
  }
}

constexpr auto kFamilies = std::to_array<MetricFamily>({
    {"http_requests_total",
     MetricType::counter,
     "handler, method, status",
     "Answered requests by route, method and class of status.",
     write_requests},
    {"http_request_duration_seconds",
     MetricType::histogram,
     "handler, method",
     "From the whole request to the end of its answer, in coarse buckets.",
     write_durations},
    {"http_request_duration_highr_seconds",
     MetricType::histogram,
     "",
     "From the whole request to the end of its answer, in fine buckets, all routes together.",
     [](Out out, From from) { out.histogram(from.http.all_durations()); }},
    {"http_request_size_bytes",
     MetricType::summary,
     "handler",
     "Size of the bodies of requests.",
     [](Out out, From from) {
       for (const auto& [handler, size] : from.http.request_sizes())
         out.summary(size.count, size.bytes, {{"handler", handler}});
     }},
    {"http_response_size_bytes",
     MetricType::summary,
     "handler",
     "Size of the bodies of answers.",
     [](Out out, From from) {
       for (const auto& [handler, size] : from.http.response_sizes())
         out.summary(size.count, size.bytes, {{"handler", handler}});
     }},
});

}  // namespace

MetricGroup http_metrics() { return {"HTTP", MetricGroup::Scope::process, kFamilies}; }

}  // namespace reprise::server
