# The program whose instructions tests/gates/check_counts.py counts under callgrind. Left out where
# valgrind's header is missing.
find_path(VALGRIND_INCLUDE_DIR valgrind/callgrind.h)
if(VALGRIND_INCLUDE_DIR AND NOT OCTAVO_SANITIZE)
  add_executable(hot_paths tests/gates/hot_paths.cc tests/gates/engine_paths.cc
                 tests/gates/text_paths.cc tests/gates/kernel_paths.cc)
  target_link_libraries(hot_paths PRIVATE octavo_openai)
  target_include_directories(hot_paths PRIVATE ${VALGRIND_INCLUDE_DIR})
  octavo_options(hot_paths)
endif()
