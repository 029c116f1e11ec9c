#include "openai/generation_task.h"

#include <algorithm>
#include <utility>

namespace octavo::openai {
namespace {

/// What killed an engine is for the log, not for clients.
const std::string kEngineDead = "The engine has stopped and cannot answer";

}  // namespace

GenerationTask::GenerationTask(const ApiContext& api, std::shared_ptr<Exchange> exchange,
                               bool stream)
    : api_(api), exchange_(std::move(exchange)), stream_(stream) {}

/// What throws ends the request's generation too: the exchange only tells the client.
Status GenerationTask::start(std::vector<frontend::GenerateRequest> requests) try {
  auto streams = api_.frontend->generate_all(std::move(requests));
  if (!streams.ok()) {
    if (api_.frontend->engine_dead()) return Error{Code::kInternal, kEngineDead};
    return std::move(streams).error();
  }
  streams_ = std::move(streams).value();
  exchange_->on_disconnect([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->cancel();
  });
  if (stream_) exchange_->begin_stream({});
  // The streams keep this object alive until their last delta.
  for (const auto& stream : streams_) {
    stream->on_ready([self = shared_from_this()] { self->schedule(); });
  }
  return {};
} catch (...) {
  cancel();
  throw;
}

/// Leaves the engine's output thread; several calls become one.
void GenerationTask::schedule() {
  if (cancelled_.load() || scheduled_.exchange(true)) return;
  exchange_->post([self = shared_from_this()] {
    self->scheduled_.store(false);
    try {
      self->drain();
    } catch (...) {
      self->cancel();
      throw;
    }
  });
}

void GenerationTask::drain() {
  std::lock_guard lock(mutex_);
  if (done_ || cancelled_.load()) return;
  std::string events;
  for (size_t prompt = 0; prompt < streams_.size(); ++prompt) {
    for (frontend::Delta& delta : streams_[prompt]->take()) {
      if (delta.finish_reason == engine::FinishReason::kError) {
        return fail(delta, std::move(events));
      }
      on_delta(prompt, std::move(delta), events);
    }
  }
  const bool finished = std::all_of(streams_.begin(), streams_.end(),
                                    [](const auto& stream) { return stream->finished(); });
  if (!stream_) {
    if (!finished) return;
    done_ = true;
    return exchange_->respond(response());
  }
  if (finished) {
    done_ = true;
    on_end(events);
    events += "data: [DONE]\n\n";
  }
  if (!events.empty() && !exchange_->write(std::move(events))) return cancel();
  if (finished) exchange_->end_stream();
}

/// The engine gave up on a sample: the whole request fails, the others are not wanted any more.
void GenerationTask::fail(const frontend::Delta& delta, std::string events) {
  done_ = true;
  for (const auto& stream : streams_) stream->abort();
  const bool dead = api_.frontend->engine_dead() || delta.error.empty();
  const HttpResponse error =
      error_response(500, "InternalServerError", dead ? kEngineDead : delta.error);
  if (!stream_) return exchange_->respond(error);
  events += "data: " + error.body + "\n\ndata: [DONE]\n\n";
  if (exchange_->write(std::move(events))) exchange_->end_stream();
}

void GenerationTask::cancel() {
  if (cancelled_.exchange(true)) return;
  for (const auto& stream : streams_) stream->abort();
}

}  // namespace octavo::openai
