#include "client/event_stream.h"

namespace octavo::client {

Status EventStreamReader::feed(std::string_view piece) {
  while (!piece.empty()) {
    if (after_cr_ && piece.front() == '\n') piece.remove_prefix(1);
    after_cr_ = false;
    if (piece.empty()) break;
    const size_t end = piece.find_first_of("\r\n");
    if (end == std::string_view::npos) {
      line_.append(piece);
      if (line_.size() + data_.size() > max_event_bytes_) break;
      return {};
    }
    after_cr_ = piece[end] == '\r';
    if (line_.empty()) {
      on_line(piece.substr(0, end));  // the usual case: no copy
    } else {
      line_.append(piece.substr(0, end));
      on_line(line_);
      line_.clear();
    }
    if (data_.size() > max_event_bytes_) break;
    piece.remove_prefix(end + 1);
  }
  if (line_.size() + data_.size() > max_event_bytes_) {
    return Error{Code::kInvalidArgument, "an event of the stream is too large"};
  }
  return {};
}

void EventStreamReader::finish() {
  if (!line_.empty()) on_line(line_);
  line_.clear();
  dispatch();
}

void EventStreamReader::on_line(std::string_view line) {
  if (line.empty()) {
    dispatch();
    return;
  }
  if (!line.starts_with("data")) return;
  line.remove_prefix(4);
  if (!line.empty() && line[0] != ':') return;  // a field whose name only begins with "data"
  if (!line.empty()) line.remove_prefix(1);
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_.append(line);
  has_data_ = true;
}

void EventStreamReader::dispatch() {
  if (has_data_) on_data_(data_);
  data_.clear();
  has_data_ = false;
}

}  // namespace octavo::client
