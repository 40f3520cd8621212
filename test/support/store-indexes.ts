/** Which tables of a store grow for as long as it is used, and which indexes stay small. */

/** Tables that grow with everything that was ever done, or with the tasks that wait to be. */
export const growing = [
  ...['item', 'event', 'message', 'delivery', 'answer', 'outcome', 'image', 'state'],
  'ready_word',
]

/** These hold only active rows, so reading all of one costs no more than those. */
export const small =
  /\b(item_(held|held_suspect|suspect|due|quarantined|offered)|delivery_(held|due|expiry)|message_(due|pending|dead)|run_running)\b/
