/** The caretaker as its process sees it. */
export interface CaretakerHandle {
  stop(): Promise<void>
  /** Rejoins the fleet if this instance has ended; returns the instance the process continues as. */
  rejoin(): Promise<string>
}
