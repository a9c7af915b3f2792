#include "tests/support/kernels/oracles/states.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tests/support/kernels/reference.h"

namespace reprise::kernels {
namespace {

void clear_row_ref(const Tensor& out, int64_t token) {
  for (int64_t i = 0; i < out.size(1); ++i) set_element(out, 0, token, i);
}

// Returns the slot that gets the state after a token of a request. The slot of token 0 also holds
// the state before token 0.
int64_t slot_ref(const StateOperands& states, int64_t request, int64_t token) {
  const Tensor& slots = states.state_indices;
  if (slots.rank() == 1) return int_element(slots, request);
  return int_element(slots, request, std::min(token, slots.size(1) - 1));
}

void copy_slot_ref(const Tensor& state, int64_t from, int64_t to) {
  const int64_t size = state.stride(0);
  auto* const data = state.data_as<float>();
  if (from != to) std::copy_n(data + from * size, size, data + to * size);
}

// Clears the rows of the tokens after those of the last request.
void clear_padding_ref(const StateOperands& states, const Tensor& out) {
  for (int64_t token = int_element(states.query_start_loc, states.seq_lens.size(0));
       token < out.size(0);
       ++token) {
    clear_row_ref(out, token);
  }
}

void update_token_ref(const SelectiveStateInputs& in,
                      const Tensor& state,
                      const Tensor& out,
                      int64_t slot,
                      int64_t token) {
  const int64_t heads = state.size(1);
  const int64_t groups = in.b.size(1) / state.size(3);
  for (int64_t head = 0; head < heads; ++head) {
    const double raw = element(in.dt, token, head) + element(in.dt_bias, head);
    const double step = raw > 30 ? raw : std::log1p(std::exp(raw));
    const int64_t shared = head / (heads / groups) * state.size(3);
    for (int64_t p = 0; p < state.size(2); ++p) {
      const int64_t column = head * state.size(2) + p;
      const double x = element(in.x, token, column);
      double sum = element(in.d, head) * x;
      for (int64_t n = 0; n < state.size(3); ++n) {
        const double a_log =
            in.a_log.rank() == 1 ? element(in.a_log, head) : element(in.a_log, head, n);
        const double h = element(state, slot, head, p, n) * std::exp(-std::exp(a_log) * step) +
                         step * element(in.b, token, shared + n) * x;
        set_element(state, h, slot, head, p, n);
        sum += h * element(in.c, token, shared + n);
      }
      set_element(out, sum, token, column);
    }
  }
}

std::vector<double> normalised_ref(const Tensor& x, int64_t token, int64_t first, int64_t size) {
  std::vector<double> row;
  double squares = 1e-6;
  for (int64_t i = 0; i < size; ++i) {
    row.push_back(element(x, token, first + i));
    squares += row.back() * row.back();
  }
  for (double& value : row) value /= std::sqrt(squares);
  return row;
}

void update_head_ref(const DeltaRuleInputs& in,
                     const Tensor& state,
                     const Tensor& out,
                     int64_t slot,
                     int64_t token,
                     int64_t head) {
  const int64_t keys = state.size(2);
  const int64_t groups = in.k.size(1) / keys;
  const int64_t shared = head / in.neighbours % groups * keys;
  const std::vector<double> q = normalised_ref(in.q, token, shared, keys);
  const std::vector<double> k = normalised_ref(in.k, token, shared, keys);
  const int64_t steps = in.dt.size(1) / state.size(1);  // of the head
  const auto decay_of = [&](int64_t key) {
    const int64_t index = head * steps + (steps == 1 ? 0 : key);
    const double raw = element(in.dt, token, index) + element(in.dt_bias, index);
    const double step = raw > 30 ? raw : std::log1p(std::exp(raw));
    return std::exp(-std::exp(element(in.a_log, head)) * step);
  };
  const double beta = 1 / (1 + std::exp(-element(in.beta, token, head)));
  for (int64_t i = 0; i < state.size(3); ++i) {
    const int64_t column = head * state.size(3) + i;
    double remembered = 0;
    for (int64_t key = 0; key < keys; ++key) {
      remembered +=
          element(state, slot, head, key, i) * decay_of(key) * k[static_cast<size_t>(key)];
    }
    const double change = (element(in.v, token, column) - remembered) * beta;
    double result = 0;
    for (int64_t key = 0; key < keys; ++key) {
      const auto index = static_cast<size_t>(key);
      const double h = element(state, slot, head, key, i) * decay_of(key) + k[index] * change;
      set_element(state, h, slot, head, key, i);
      result += h * q[index] / std::sqrt(static_cast<double>(keys));
    }
    set_element(out, result, token, column);
  }
}

}  // namespace

void recurrence_ref(const UpdateStateRef& update, const StateOperands& states, const Tensor& out) {
  clear_padding_ref(states, out);
  for (int64_t request = 0; request < states.seq_lens.size(0); ++request) {
    const int64_t begin = int_element(states.query_start_loc, request);
    const int64_t end = int_element(states.query_start_loc, request + 1);
    int64_t slot = slot_ref(states, request, 0);
    if (slot > 0 && begin < end && int_element(states.seq_lens, request) <= end - begin) {
      const int64_t size = states.state.stride(0);
      std::fill_n(states.state.data_as<float>() + slot * size, size, 0.0F);
    }
    for (int64_t token = begin; token < end; ++token) {
      if (slot > 0) {
        const int64_t before = std::exchange(slot, slot_ref(states, request, token - begin));
        copy_slot_ref(states.state, before, slot);
        update(slot, token);
      } else {
        clear_row_ref(out, token);
      }
    }
  }
}

void convolution_ref(const ConvolutionRef& op,
                     const Tensor& weight,
                     const Tensor& bias,
                     const StateOperands& states,
                     const Tensor& out) {
  const int64_t num_earlier = weight.size(2) - 1;
  clear_padding_ref(states, out);
  for (int64_t request = 0; request < states.seq_lens.size(0); ++request) {
    const int64_t begin = int_element(states.query_start_loc, request);
    const int64_t end = int_element(states.query_start_loc, request + 1);
    const int64_t slot = slot_ref(states, request, 0);
    const bool is_new = int_element(states.seq_lens, request) <= end - begin;
    for (int64_t channel = 0; channel < out.size(1) && begin < end; ++channel) {
      std::vector<double> inputs;
      for (int64_t k = 0; k < num_earlier; ++k) {
        inputs.push_back(is_new || slot == 0 ? 0 : element(states.state, slot, k, channel));
      }
      for (int64_t token = begin; token < end; ++token) {
        inputs.push_back(op.input(token, channel));
        double sum = bias.defined() ? element(bias, channel) : 0;
        for (int64_t k = 0; k <= num_earlier; ++k) {
          sum += inputs[inputs.size() - static_cast<size_t>(num_earlier + 1 - k)] *
                 element(weight, channel, 0, k);
        }
        set_element(out, slot == 0 ? 0 : op.result(token, channel, sum), token, channel);
        for (int64_t k = 0; k < num_earlier && slot > 0; ++k) {
          const double last = inputs[inputs.size() - static_cast<size_t>(num_earlier - k)];
          set_element(states.state, last, slot_ref(states, request, token - begin), k, channel);
        }
      }
    }
  }
}

void causal_conv1d_ref(const Tensor& x,
                       const Tensor& weight,
                       const Tensor& bias,
                       const StateOperands& states,
                       const Tensor& out) {
  convolution_ref(
      {.input = [&](int64_t token, int64_t channel) { return element(x, token, channel); },
       .result = [](int64_t, int64_t, double sum) { return sum / (1.0 + std::exp(-sum)); }},
      weight,
      bias,
      states,
      out);
}

void short_conv_ref(const Tensor& x,
                    const Tensor& weight,
                    const Tensor& bias,
                    const StateOperands& states,
                    const Tensor& out) {
  const int64_t channels = out.size(1);
  convolution_ref(
      {.input =
           [&](int64_t token, int64_t channel) {
             return element(x, token, channel) * element(x, token, 2 * channels + channel);
           },
       .result = [&](int64_t token,
                     int64_t channel,
                     double sum) { return element(x, token, channels + channel) * sum; }},
      weight,
      bias,
      states,
      out);
}

void selective_state_update_ref(const SelectiveStateInputs& in,
                                const StateOperands& states,
                                const Tensor& out) {
  const auto update = [&](int64_t slot, int64_t token) {
    update_token_ref(in, states.state, out, slot, token);
  };
  recurrence_ref(update, states, out);
}

void gated_delta_rule_ref(const DeltaRuleInputs& in,
                          const StateOperands& states,
                          const Tensor& out) {
  const auto update = [&](int64_t slot, int64_t token) {
    for (int64_t head = 0; head < states.state.size(1); ++head) {
      update_head_ref(in, states.state, out, slot, token, head);
    }
  };
  recurrence_ref(update, states, out);
}

}  // namespace reprise::kernels
