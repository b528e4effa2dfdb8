# Headers that are installed: oubli/oubli.h and what it includes, directly or not. All others are ours
# alone. OUBLI_PUBLIC_HEADERS holds them.
function(oubli_find_public_headers)
  set(found "")
  set(next oubli/oubli.h)
  while(next)
    list(POP_FRONT next header)
    if(header IN_LIST found OR NOT EXISTS ${PROJECT_SOURCE_DIR}/${header})
      continue()
    endif()
    list(APPEND found ${header})
    file(STRINGS ${PROJECT_SOURCE_DIR}/${header} lines REGEX "^#include \"oubli/")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" included "${line}")
      list(APPEND next ${included})
    endforeach()
  endwhile()
  set(OUBLI_PUBLIC_HEADERS ${found} PARENT_SCOPE)
endfunction()
oubli_find_public_headers()
target_sources(oubli PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}
               FILES ${PROJECT_SOURCE_DIR}/oubli/oubli.h)

# The others, so that the dev preset compiles each of them alone, too.
add_library(oubli_inner_headers INTERFACE)
target_link_libraries(oubli_inner_headers INTERFACE oubli)
set_target_properties(oubli oubli_inner_headers PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)

function(oubli_add_headers)
  foreach(header IN LISTS ARGN)
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${header})
    if(name IN_LIST OUBLI_PUBLIC_HEADERS)
      target_sources(oubli PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${header})
    else()
      target_sources(oubli_inner_headers INTERFACE FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}
                     FILES ${header})
    endif()
  endforeach()
endfunction()
